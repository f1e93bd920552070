/* A stand-in for libnvidia-ml.so.1 in tests: H200-like GPUs whose answers a text file drives.
 *
 * Files beside the library itself (so that a copy of it is a GPU of its own):
 *   <library>.state    "key value" lines, read again at every call; see `number` for the keys' defaults
 *   <library>.locked   which clocks are locked, across processes: "sm MHZ" and "memory MHZ"
 *   <library>.setters  every setter call, one a line
 *   <library>.opened   there once it was initialised
 * The environment variable FAKE_NVML_STATE replaces <library>.
 *
 * Keys: sm_min sm_max sm_step memory_max        the clocks there are
 *       sag N            under load the clock never exceeds N, and the power cap shows when asked for more
 *       lie N            setters succeed and the SM clock stays N
 *       throttle BITS    reason bits, always on
 *       refuse CODE      what SM setters return; refuse_memory CODE likewise; refuse_reset CODE what resets return
 *       lost_after N     from the N-th call of a process on, the GPU is lost
 *       init CODE        what initialising returns; init_again CODE from the second time on, in any process
 *       gpus N           so many GPUs, with the last digit of UUID and PCI bus counting up; same_uuid 1 names all like the first
 *       silent IDX       that GPU's handle answers "lost", the others' do not
 *       empty 1          texts are empty
 *       not_available 1  numbers are all ones, NVML's word for "not available"
 *       fail CODE        every getter returns it; fail_WORD CODE only those of that word
 *       lie_reset 1      resets succeed and reset nothing
 *       persistence N    0: what is locked is forgotten when the process that locked it is gone
 *       unsupported WORD (may repeat) the getters of that word are not supported: sm_clock throttle violations ecc remap
 *                        mig processes clocks power temperature pci memory busy persistence capability
 *       process PID      (may repeat) a compute process
 *       memory_used N    in MiB; busy N in percent; ecc_corrected N; ecc_corrected_step N more at each call
 *       ecc_errors N, remap_pending N, remap_failed N, mig N, power_mw N, power_cap_mw N, violation_step_ns N
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <signal.h>
#include <unistd.h>

typedef unsigned int Return;
typedef void *Device;
enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };

#define UUID "GPU-fa4efa4e-0000-4000-8000-00000000000"
enum { MOST_GPUS = 9 };

static int calls;
static char gpu_handles[MOST_GPUS];

static void file_name(char *out, size_t size, const char *suffix) {
    const char *base = getenv("FAKE_NVML_STATE");
    Dl_info info;
    if (!base) base = dladdr((void *)file_name, &info) ? info.dli_fname : "fake_nvml";
    snprintf(out, size, "%s%s", base, suffix);
}

static FILE *open_beside(const char *suffix, const char *mode) {
    char name[4096];
    file_name(name, sizeof name, suffix);
    return fopen(name, mode);
}

/* The n-th value of a key (from 0), or NULL. */
static const char *text(const char *suffix, const char *key, int n) {
    static _Thread_local char value[256];
    char found[256], line[512];
    FILE *file = open_beside(suffix, "r");
    const char *result = NULL;
    while (file && !result && fgets(line, sizeof line, file))
        if (sscanf(line, "%255s %255s", found, value) == 2 && !strcmp(found, key) && n-- == 0) result = value;
    if (file) fclose(file);
    return result;
}

static unsigned long long number(const char *key, unsigned long long fallback) {
    const char *value = text(".state", key, 0);
    return value ? strtoull(value, NULL, 0) : fallback;
}

/* Whether the driver has forgotten the locks: without persistence it does when its last client, here the locker, is gone. */
static int forgotten(void) {
    if (number("persistence", 1)) return 0;
    const char *locker = text(".locked", "by", 0);
    return locker && kill((pid_t)atoi(locker), 0) != 0;
}

static unsigned locked(const char *which) {
    if (forgotten()) return 0;
    const char *value = text(".locked", which, 0);
    return value ? (unsigned)atoi(value) : 0;
}

static void set_locked(unsigned sm, unsigned memory) {
    char partial[4096], whole[4096];
    file_name(partial, sizeof partial, ".locked.partial");
    file_name(whole, sizeof whole, ".locked");
    FILE *file = fopen(partial, "w");
    if (!file) return;
    if (sm) fprintf(file, "sm %u\n", sm);
    if (memory) fprintf(file, "memory %u\n", memory);
    if ((sm || memory) && !number("persistence", 1)) fprintf(file, "by %d\n", (int)getpid());
    fclose(file);
    rename(partial, whole);
}

static void log_setter(const char *name, unsigned mhz) {
    FILE *file = open_beside(".setters", "a");
    if (!file) return;
    fprintf(file, "%s %u\n", name, mhz);
    fclose(file);
}

/* Whether the GPU answers at all, and this word of it. */
static Return alive(const char *word) {
    const char *other;
    char fail[64];
    snprintf(fail, sizeof fail, "fail_%s", word);
    if ((unsigned long long)__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) > number("lost_after", ~0ULL)) return LOST;
    for (int n = 0; (other = text(".state", "unsupported", n)); n++)
        if (!strcmp(other, word)) return UNSUPPORTED;
    return (Return)number(fail, number("fail", OK));
}

static unsigned wanted(void) {
    unsigned lock = locked("sm");
    return lock ? lock : (unsigned)number("sm_max", 1980);
}

static int sagging(void) { return wanted() > number("sag", ~0ULL); }

/* A reading, or NVML's word for "not available". */
static unsigned u32(unsigned long long value) { return number("not_available", 0) ? ~0u : (unsigned)value; }
static unsigned long long u64(unsigned long long value) { return number("not_available", 0) ? ~0ULL : value; }

#define ANSWER(word, statement) \
    do { \
        Return state = alive(word); \
        if (state == OK) { statement; } \
        return state; \
    } while (0)

Return nvmlInit_v2(void) {
    FILE *opened = open_beside(".opened", "r");
    Return code = (Return)number(opened ? "init_again" : "init", number("init", OK));
    if (!opened) opened = open_beside(".opened", "w");
    if (opened) fclose(opened);
    return code;
}
Return nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
Return nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(Return code) { (void)code; return "an error of the fake"; }

static Return copy(char *out, unsigned size, const char *value) {
    snprintf(out, size, "%s", number("empty", 0) ? "" : value);
    return OK;
}

Return nvmlSystemGetDriverVersion(char *out, unsigned size) { return copy(out, size, "580.95.05"); }
Return nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = (int)number("cuda", 13000); return OK; }
static unsigned gpu_count(void) { return (unsigned)number("gpus", 1); }
Return nvmlDeviceGetCount_v2(unsigned *count) { *count = gpu_count(); return (Return)number("fail_count", OK); }
static unsigned index_of(Device device) { return (unsigned)((char *)device - gpu_handles); }

static const char *uuid_of(unsigned idx) {
    static _Thread_local char uuid[64];
    snprintf(uuid, sizeof uuid, UUID "%u", number("same_uuid", 0) ? 1 : idx + 1);
    return uuid;
}

Return nvmlDeviceGetHandleByIndex_v2(unsigned idx, Device *device) {
    if (idx >= gpu_count() || idx >= MOST_GPUS) return INVALID;
    *device = &gpu_handles[idx];
    return number("silent", ~0ULL) == idx ? LOST : OK;
}

Return nvmlDeviceGetHandleByUUID(const char *uuid, Device *device) {
    for (unsigned idx = 0; idx < gpu_count(); idx++)
        if (!strcmp(uuid, uuid_of(idx))) return nvmlDeviceGetHandleByIndex_v2(idx, device);
    return NOT_FOUND;
}

Return nvmlDeviceGetUUID(Device d, char *out, unsigned size) {
    snprintf(out, size, "%s", uuid_of(index_of(d)));
    return (Return)number("fail_uuid", OK);
}
Return nvmlDeviceGetName(Device d, char *out, unsigned size) { (void)d; ANSWER("name", copy(out, size, "NVIDIA Fake")); }

Return nvmlDeviceGetCudaComputeCapability(Device d, int *major, int *minor) {
    (void)d;
    ANSWER("capability", (*major = 9, *minor = 0));
}

struct Pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
};

Return nvmlDeviceGetPciInfo_v3(Device d, struct Pci *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x3b + index_of(d);
    snprintf(pci->text, sizeof pci->text, number("empty", 0) ? "" : "00000000:%02X:00.0", pci->bus);
    return alive("pci");
}

/* As in a driver of an older series, which lacks what came later. */
#ifndef OLD
struct Memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

Return nvmlDeviceGetMemoryInfo_v2(Device d, struct Memory *memory) {
    (void)d;
    memory->total = u64(143771ULL << 20);
    memory->reserved = memory->free = 0;
    ANSWER("memory", memory->used = u64(number("memory_used", 4) << 20));
}

#endif

Return nvmlDeviceGetUtilizationRates(Device d, unsigned *rates) {
    (void)d;
    ANSWER("busy", (rates[0] = u32(number("busy", 0)), rates[1] = 0));
}

Return nvmlDeviceGetPersistenceMode(Device d, unsigned *mode) {
    (void)d;
    ANSWER("persistence", *mode = (unsigned)number("persistence", 1));
}

/* Clock types: 1 SM, 2 memory. */
Return nvmlDeviceGetClockInfo(Device d, unsigned type, unsigned *mhz) {
    (void)d;
    if (type == 2) ANSWER("memory_clock", *mhz = u32(locked("memory") ? locked("memory") : number("memory_max", 2619)));
    ANSWER("sm_clock", *mhz = u32(number("lie", sagging() ? number("sag", 0) : wanted())));
}

Return nvmlDeviceGetMaxClockInfo(Device d, unsigned type, unsigned *mhz) {
    (void)d;
    ANSWER("clocks", *mhz = u32(type == 2 ? number("memory_max", 2619) : number("sm_max", 1980)));
}

Return nvmlDeviceGetSupportedMemoryClocks(Device d, unsigned *count, unsigned *mhz) {
    (void)d;
    if (*count < 1) return TOO_SMALL;
    ANSWER("clocks", (*count = 1, mhz[0] = (unsigned)number("memory_max", 2619)));
}

Return nvmlDeviceGetSupportedGraphicsClocks(Device d, unsigned memory, unsigned *count, unsigned *mhz) {
    unsigned min = (unsigned)number("sm_min", 345), max = (unsigned)number("sm_max", 1980);
    unsigned step = (unsigned)number("sm_step", 15), n = (max - min) / step + 1;
    (void)d, (void)memory;
    if (*count < n) return *count = n, TOO_SMALL;
    *count = n;
    for (unsigned i = 0; i < n; i++) mhz[i] = max - i * step;
    return alive("clocks");
}

Return nvmlDeviceGetPowerUsage(Device d, unsigned *mw) {
    (void)d;
    unsigned cap = (unsigned)number("power_cap_mw", 700000);
    ANSWER("power", *mw = u32(sagging() ? cap : number("power_mw", 450000)));
}

Return nvmlDeviceGetEnforcedPowerLimit(Device d, unsigned *mw) {
    (void)d;
    ANSWER("power_cap", *mw = u32(number("power_cap_mw", 700000)));
}

Return nvmlDeviceGetTemperature(Device d, unsigned sensor, unsigned *c) { (void)d, (void)sensor; ANSWER("temperature", *c = u32(47)); }

Return nvmlDeviceGetCurrentClocksThrottleReasons(Device d, unsigned long long *bits) {
    (void)d;
    ANSWER("throttle", *bits = number("throttle", 0) | (sagging() ? 4 : 0) | (locked("sm") ? 2 : 0));
}

#ifndef OLD
Return nvmlDeviceGetViolationStatus(Device d, unsigned policy, unsigned long long *times) {
    (void)d;
    unsigned long long step = number("violation_step_ns", 0) * (unsigned long long)calls;
    ANSWER("violations", (times[0] = 0, times[1] = policy == 0 ? 1000 + step : 0));
}
#endif

Return nvmlDeviceGetEccMode(Device d, unsigned *now, unsigned *pending) { (void)d; ANSWER("ecc", *now = *pending = 1); }

Return nvmlDeviceGetTotalEccErrors(Device d, unsigned type, unsigned counter, unsigned long long *count) {
    (void)d, (void)counter;
    unsigned long long step = number("ecc_corrected_step", 0) * (unsigned long long)calls;
    ANSWER("ecc", *count = u64(type == 0 ? number("ecc_corrected", 0) + step : number("ecc_errors", 0)));
}

Return nvmlDeviceGetMigMode(Device d, unsigned *now, unsigned *pending) {
    (void)d;
    ANSWER("mig", *now = *pending = (unsigned)number("mig", 0));
}

/* 0 bare, 1 passed through, 2 a vGPU, 3 a host of vGPUs. */
Return nvmlDeviceGetVirtualizationMode(Device d, unsigned *mode) {
    (void)d;
    ANSWER("virtualization", *mode = (unsigned)number("virtualization", 1));
}

struct Field {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type;
    Return result;
    union { double d; unsigned u; unsigned long long ull; } value;
};

Return nvmlDeviceGetFieldValues(Device d, int count, struct Field *fields) {
    (void)d;
    for (int i = 0; i < count; i++) {
        fields[i].type = 1;
        fields[i].result = alive("remap");
        fields[i].value.ull = 0;
        if (fields[i].id == 145) fields[i].value.u = (unsigned)number("remap_failed", 0);
        if (fields[i].id == 144) fields[i].value.u = (unsigned)number("remap_pending", 0);
    }
    return OK;
}

struct Process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

Return nvmlDeviceGetComputeRunningProcesses_v3(Device d, unsigned *count, struct Process *out) {
    unsigned n = 0;
    (void)d;
    while (text(".state", "process", (int)n)) n++;
    Return state = alive("processes");
    if (state != OK) return state;
    if (*count < n) return *count = n, TOO_SMALL;
    *count = n;
    for (unsigned i = 0; i < n; i++) {
        memset(&out[i], 0, sizeof out[i]);
        out[i].pid = (unsigned)atoi(text(".state", "process", (int)i));
    }
    return OK;
}

/* Deprecated; that nobody calls it shows in the log of setters. */
Return nvmlDeviceSetApplicationsClocks(Device d, unsigned memory, unsigned graphics) {
    (void)d, (void)memory;
    log_setter("application_clocks", graphics);
    return OK;
}

Return nvmlDeviceSetGpuLockedClocks(Device d, unsigned min, unsigned max) {
    (void)d;
    log_setter("lock_sm", max);
    Return refusal = (Return)number("refuse", OK);
    if (refusal != OK) return refusal;
    if (min != max) return INVALID;
    ANSWER("lock_sm", set_locked(max, locked("memory")));
}

Return nvmlDeviceResetGpuLockedClocks(Device d) {
    (void)d;
    log_setter("reset_sm", 0);
    Return refusal = (Return)number("refuse_reset", OK);
    if (refusal != OK) return refusal;
    ANSWER("reset_sm", set_locked(number("lie_reset", 0) ? locked("sm") : 0, locked("memory")));
}

Return nvmlDeviceSetMemoryLockedClocks(Device d, unsigned min, unsigned max) {
    (void)d;
    log_setter("lock_memory", max);
    Return refusal = (Return)number("refuse_memory", OK);
    if (refusal != OK) return refusal;
    if (min != max) return INVALID;
    ANSWER("lock_memory", set_locked(locked("sm"), max));
}

Return nvmlDeviceResetMemoryLockedClocks(Device d) {
    (void)d;
    log_setter("reset_memory", 0);
    Return refusal = (Return)number("refuse_reset", OK);
    if (refusal != OK) return refusal;
    ANSWER("reset_memory", set_locked(locked("sm"), 0));
}
