// dlopen of a library after the start, functions looked up in it, and unloading.
// flags: -ldl
#include "check.h"
#include <dlfcn.h>

int main(void) {
    void *library = dlopen("libm.so.6", RTLD_NOW);
    CHECK(library);
    double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
    CHECK(cosine && cosine(0.0) == 1.0);
    Dl_info info;
    CHECK(dladdr((void *)cosine, &info) && strstr(info.dli_fname, "libm"));
    say("%s at %p, cos(1) = %.17g\n", info.dli_fname, info.dli_fbase, cosine(1.0));
    CHECK(dlclose(library) == 0);
    library = dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL);
    CHECK(library && dlsym(library, "sin") && dlclose(library) == 0);
    CHECK(dlopen("libnonexistent.so.99", RTLD_NOW) == NULL && dlerror());
    void *self = dlopen(NULL, RTLD_NOW);
    CHECK(self && dlsym(self, "getpid") && !dlsym(self, "no_such_symbol"));
    return 0;
}
