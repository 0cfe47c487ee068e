// The C library's buffered files: formatted output, seeking, temporary files and output to both console streams.
// output: same
// stdout: ^42 apples$
// stderr: ^to the error stream$
#include "check.h"

int main(void) {
    FILE *file = fopen("table", "w+");
    CHECK(file);
    for (int row = 0; row < 1000; row++) {
        CHECK(fprintf(file, "%d %d\n", row, row * row) > 0);
    }
    CHECK(fseek(file, 0, SEEK_SET) == 0);
    long sum = 0;
    int row;
    int square;
    while (fscanf(file, "%d %d", &row, &square) == 2) {
        sum += square - row;
    }
    CHECK(feof(file) && sum == 332334000);
    CHECK(fclose(file) == 0);
    FILE *temporary = tmpfile();
    CHECK(temporary && fputs("scratch", temporary) >= 0);
    rewind(temporary);
    char text[10];
    CHECK(fgets(text, sizeof text, temporary) && strcmp(text, "scratch") == 0);
    printf("%d apples\n", 42);
    fprintf(stderr, "to the error %s\n", "stream");
    for (int line = 0; line < 2000; line++) {
        printf("line %d of many\n", line);
    }
    return 0;
}
