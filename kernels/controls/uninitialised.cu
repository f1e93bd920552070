// Planted fault: reads a buffer that nobody wrote. initcheck must catch it.
#include <cstdint>

extern "C" __global__ __launch_bounds__(32) void control_uninitialised(const uint32_t* data, uint32_t* out, uint32_t length) {
    if (threadIdx.x < length) out[threadIdx.x] = data[threadIdx.x] + 1;
}
