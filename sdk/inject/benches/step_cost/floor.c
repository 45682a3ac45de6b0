/* The least that recording device operations by CUPTI costs: kernels, copies and memsets are recorded,
 * and the records are thrown away. The driver loads it by CUDA_INJECTION64_PATH, as it does
 * gpustall's own library. FLOOR_CUPTI names libcupti.
 *
 *     cc -O2 -shared -fPIC -o libfloor.so floor.c -ldl
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { COPY = 1, SET = 2, KERNEL = 10, BYTES = 1 << 20 };

static void requested(uint8_t **buffer, size_t *bytes, size_t *most) {
    *buffer = aligned_alloc(8, BYTES);
    *bytes = *buffer ? BYTES : 0;
    *most = 0;
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    (void)context, (void)stream, (void)bytes, (void)valid;
    free(buffer);
}

int InitializeInjection(void) {
    const char *path = getenv("FLOOR_CUPTI");
    void *cupti = dlopen(path ? path : "libcupti.so.13", RTLD_NOW);
    if (!cupti) {
        fprintf(stderr, "floor: %s\n", dlerror());
        return 0;
    }
    int (*callbacks)(void *, void *) = dlsym(cupti, "cuptiActivityRegisterCallbacks");
    int (*enable)(uint32_t) = dlsym(cupti, "cuptiActivityEnable");
    int wrong = callbacks(requested, completed) | enable(KERNEL) | enable(COPY) | enable(SET);
    if (wrong)
        fprintf(stderr, "floor: CUPTI refused\n");
    return !wrong;
}
