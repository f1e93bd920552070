/* A stand-in for libcuda.so.1 in tests. Beside the library, <library>.state holds "key value" lines:
 *
 *   init CODE     what cuInit returns
 *   count CODE    what cuDeviceGetCount returns
 *   gpus N        so many GPUs, with the last digit of UUID and PCI bus counting up, as the fake NVML's do
 *   bus N         the first GPU's bus, 0x3b unless given
 *   hidden 1      no GPU is seen where CUDA_VISIBLE_DEVICES is set, or where the order of GPUs is not that of their addresses
 *   crash 1       cuInit ends the process by a signal
 *   hang 1        cuInit never returns
 *
 * Compiled with -DOLD it has nothing but cuInit and cuDriverGetVersion, as a driver much older than its caller.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long number(const char *key, long fallback) {
    char name[4096], found[64], value[64], line[256];
    Dl_info info;
    if (!dladdr((void *)number, &info)) return fallback;
    snprintf(name, sizeof name, "%s.state", info.dli_fname);
    FILE *file = fopen(name, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %63s", found, value) == 2 && !strcmp(found, key)) fallback = strtol(value, NULL, 0);
    if (file) fclose(file);
    return fallback;
}

int cuInit(unsigned flags) {
    (void)flags;
    if (number("crash", 0)) abort();
    while (number("hang", 0)) pause();
    return (int)number("init", 0);
}

int cuDriverGetVersion(int *version) { *version = 13000; return 0; }

#ifndef OLD
static int hidden(void) {
    const char *order = getenv("CUDA_DEVICE_ORDER");
    return number("hidden", 0) && (getenv("CUDA_VISIBLE_DEVICES") || !order || strcmp(order, "PCI_BUS_ID"));
}

int cuDeviceGetCount(int *count) {
    *count = hidden() ? 0 : (int)number("gpus", 1);
    return (int)number("count", 0);
}

int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    static const unsigned char base[16] = {0xfa, 0x4e, 0xfa, 0x4e, 0, 0, 0x40, 0, 0x80, 0};
    memcpy(uuid, base, sizeof base);
    uuid[15] = (unsigned char)(device + 1);
    return 0;
}

int cuDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, (size_t)length, "0000:%02x:00.0", (unsigned)number("bus", 0x3b) + (unsigned)device);
    return 0;
}
#endif
