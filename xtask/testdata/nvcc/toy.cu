// What the captured cubins and logs of this folder were made from.
__device__ __noinline__ float helper(float x) { return x * 3.0f + 1.0f; }
__device__ __noinline__ float deep(float x, int n) {
  float a[40];
  for (int i = 0; i < 40; ++i) a[i] = x * i + n;
  for (int k = 0; k < n; ++k) for (int i = 0; i < 40; ++i) a[i] = a[i] * a[(i + 7) % 40] + 1.5f;
  float sum = 0;
  for (int i = 0; i < 40; ++i) sum += a[i];
  return sum;
}
extern "C" __global__ void __launch_bounds__(128) scale(float* out) { out[threadIdx.x] *= 3.0f; }
extern "C" __global__ void __launch_bounds__(128) calls(float* out) {
  __shared__ float tile[128];
  tile[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = helper(tile[threadIdx.x ^ 1]);
}
extern "C" __global__ void __launch_bounds__(1024, 2) spills(float* out, int n) { out[threadIdx.x] = deep(out[threadIdx.x], n); }
