// Planted fault: only part of the block reaches the barrier. synccheck must catch it. It cannot hang: the others exit.
#include <cstdint>

extern "C" __global__ __launch_bounds__(64) void control_divergent_barrier(uint32_t*, uint32_t* out, uint32_t length) {
    __shared__ uint32_t words[64];
    if (threadIdx.x < length + length / 2) {
        words[threadIdx.x] = threadIdx.x;
        __syncthreads();
        if (threadIdx.x < length) out[threadIdx.x] = words[(threadIdx.x + 1) % length];
    }
}
