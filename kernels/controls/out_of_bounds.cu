// Planted fault: the last thread writes one word behind its buffer. memcheck must catch it.
#include <cstdint>

extern "C" __global__ __launch_bounds__(32) void control_out_of_bounds(uint32_t* data, uint32_t*, uint32_t length) {
    if (threadIdx.x < length + 1) data[threadIdx.x] = threadIdx.x;
}
