/* The functions of NVML that are called, for as many GPUs as the environment says. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

typedef struct {
    unsigned int index;
    int place; /* of an instance; -1 for the GPU as a whole */
    char profile[32];
} Device;

typedef struct {
    unsigned long long total, free, used;
} Memory;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} MemoryWithReserve;

typedef struct {
    unsigned int gpu, memory;
} Utilization;

static Device gpus[64];
static Device instances[8];

static unsigned int number(const char *name) {
    const char *value = getenv(name);
    return value ? (unsigned int)atoi(value) : 0;
}

int nvmlInitWithFlags(unsigned int flags) {
    if (number("NVML_SILENT"))
        pause();
    for (unsigned int index = 0; index < 64; index++)
        gpus[index] = (Device){index, -1, ""};
    const char *rest = getenv("NVML_INSTANCES");
    for (int place = 0; place < 8; place++) {
        size_t length = rest ? strcspn(rest, ",") : 0;
        instances[place] = (Device){0, place, ""};
        if (length && length < sizeof instances[place].profile)
            memcpy(instances[place].profile, rest, length);
        rest = rest && rest[length] ? rest + length + 1 : NULL;
    }
    return SUCCESS;
}

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int result) { return result == NOT_FOUND ? "Not Found" : "Unknown Error"; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = number("NVML_COUNT");
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device **device) {
    if (index >= number("NVML_COUNT"))
        return INVALID_ARGUMENT;
    *device = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetUUID(const Device *device, char *uuid, unsigned int length) {
    const char *kind = device->place < 0 ? "GPU" : "MIG";
    snprintf(uuid, length, "%s-%08x-0000-0000-0000-000000000000", kind, device->index + (unsigned int)(device->place + 1) * 256);
    return SUCCESS;
}

int nvmlDeviceGetName(const Device *device, char *name, unsigned int length) {
    snprintf(name, length, device->place < 0 ? "NVIDIA L4" : "NVIDIA A100 MIG %s", device->profile);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(const Device *device, Memory *memory) {
    *memory = (Memory){24ULL << 30, 17ULL << 30, 7ULL << 30};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(const Device *device, MemoryWithReserve *memory) {
    if (number("NVML_OLD"))
        return NOT_SUPPORTED;
    *memory = (MemoryWithReserve){memory->version, 24ULL << 30, 1ULL << 30, 17ULL << 30, 6ULL << 30};
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(const Device *device, Utilization *utilization) {
    if (device->place >= 0)
        return NOT_SUPPORTED;
    *utilization = (Utilization){71 - device->index, 0};
    return SUCCESS;
}

int nvmlDeviceGetMigMode(const Device *device, unsigned int *current, unsigned int *pending) {
    *current = *pending = device->index == 0 && instances[0].profile[0];
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(const Device *device, unsigned int *count) {
    *count = 8;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(const Device *device, unsigned int place, Device **instance) {
    if (place >= 8 || !instances[place].profile[0])
        return NOT_FOUND;
    *instance = &instances[place];
    return SUCCESS;
}
