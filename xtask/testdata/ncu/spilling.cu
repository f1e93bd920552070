// Local-memory traffic on purpose: an array indexed at run time.
#include <cstdio>
extern "C" __global__ void spilling(int* out, int n) {
    volatile int local[64];
    for (int i = 0; i < 64; ++i) local[i] = i * n;
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += local[(i * 7 + threadIdx.x) % 64];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
int main() {
    int* out;
    if (cudaMalloc(&out, 132 * 128 * sizeof(int)) != cudaSuccess) return 1;
    spilling<<<132, 128>>>(out, 100);
    cudaError_t e = cudaDeviceSynchronize();
    std::printf("%s\n", cudaGetErrorString(e));
    return e != cudaSuccess;
}
