// Planted fault: the lanes of one warp reach different barriers. synccheck must catch it. Where it does not, every lane has
// still reached a barrier, so nothing hangs.
#include <cstdint>

// SM cycles that one half of the warp is late.
constexpr long long kLateCycles = 100000;

extern "C" __global__ __launch_bounds__(32) void control_divergent_barrier(uint32_t*, uint32_t* out, uint32_t length) {
    __shared__ uint32_t words[32];
    words[threadIdx.x] = threadIdx.x;
    if (threadIdx.x % 2 == 0) {
        const long long start = clock64();
        while (clock64() - start < kLateCycles) {}
        __syncthreads();
        out[threadIdx.x / 2] = words[threadIdx.x + 1] + length;
    } else {
        __syncthreads();
        out[threadIdx.x / 2] = words[threadIdx.x - 1] * length;
    }
}
