// A static program that relocates itself, at an address chosen by the kernel.
// flags: -static-pie -fPIE
#include "check.h"

static int variable = 5;
static int *pointer = &variable;

int main(void) {
    CHECK(*pointer == 5 && pointer == &variable);
    FILE *file = fopen("data", "w");
    CHECK(file && fprintf(file, "%p", (void *)pointer) > 0 && fclose(file) == 0);
    say("main %p data %p\n", (void *)main, (void *)pointer);
    return 0;
}
