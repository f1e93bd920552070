// Planted fault: two warps exchange words through shared memory without a barrier. racecheck must catch it.
#include <cstdint>

extern "C" __global__ __launch_bounds__(64) void control_shared_race(uint32_t*, uint32_t* out, uint32_t length) {
    __shared__ uint32_t words[64];
    words[threadIdx.x] = threadIdx.x;
    const uint32_t theirs = words[63 - threadIdx.x];
    if (threadIdx.x < length) out[threadIdx.x] = theirs;
}
