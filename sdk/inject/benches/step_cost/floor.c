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

static int (*enable)(uint32_t), (*disable)(uint32_t);

/* Records from now on, or does not. */
int floor_switch(int on) {
    int (*change)(uint32_t) = on ? enable : disable;
    return change ? change(KERNEL) | change(COPY) | change(SET) : 1;
}

int InitializeInjection(void) {
    const char *path = getenv("FLOOR_CUPTI");
    void *cupti = dlopen(path ? path : "libcupti.so.13", RTLD_NOW);
    if (!cupti) {
        fprintf(stderr, "floor: %s\n", dlerror());
        return 0;
    }
    int (*callbacks)(void *, void *) = dlsym(cupti, "cuptiActivityRegisterCallbacks");
    enable = dlsym(cupti, "cuptiActivityEnable");
    disable = dlsym(cupti, "cuptiActivityDisable");
    int wrong = callbacks(requested, completed) | floor_switch(1);
    if (wrong)
        fprintf(stderr, "floor: CUPTI refused\n");
    return !wrong;
}
