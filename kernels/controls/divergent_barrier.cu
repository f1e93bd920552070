// Planted fault: only half of a warp reaches the barrier. synccheck must catch it. It cannot hang: the others exit.
#include <cstdint>

extern "C" __global__ __launch_bounds__(32) void control_divergent_barrier(uint32_t*, uint32_t* out, uint32_t length) {
    __shared__ uint32_t words[32];
    if (threadIdx.x < length) {
        words[threadIdx.x] = threadIdx.x;
        __syncthreads();
        out[threadIdx.x] = words[(threadIdx.x + 1) % length];
    }
}
