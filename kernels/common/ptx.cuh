// Every inline instruction of the project, one a function, under the instruction's own name.
//
// Above each: its section in the PTX ISA (9.0) and the lowest SM. Loads and stores that order memory clobber "memory"; a
// relaxed poll does not, so that arithmetic may move across it.
#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "the kernels need sm_80 or later (cp.async)"
#endif

namespace ptx {

// 10.23 Special Registers: %globaltimer. sm_30.
__device__ __forceinline__ uint64_t mov_globaltimer() {
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}

// 10.24 Special Registers: %globaltimer_lo. sm_30.
__device__ __forceinline__ uint32_t mov_globaltimer_lo() {
    uint32_t ns;
    asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(ns));
    return ns;
}

// 10.21 Special Registers: %clock64. sm_20.
__device__ __forceinline__ uint64_t mov_clock64() {
    uint64_t cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
    return cycles;
}

// 10.8 Special Registers: %smid. sm_10.
__device__ __forceinline__ uint32_t mov_smid() {
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

// 9.7.9.8 ld.relaxed, gpu scope. sm_70.
__device__ __forceinline__ uint32_t ld_relaxed_gpu(const uint32_t* address) {
    uint32_t value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address));
    return value;
}

// 9.7.9.8 ld.acquire, gpu scope. sm_70.
__device__ __forceinline__ uint32_t ld_acquire_gpu(const uint32_t* address) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// 9.7.9.8 ld.acquire, system scope. sm_70.
__device__ __forceinline__ uint32_t ld_acquire_sys(const uint32_t* address) {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// 9.7.9.11 st.relaxed, gpu scope. sm_70.
__device__ __forceinline__ void st_relaxed_gpu(uint32_t* address, uint32_t value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// 9.7.9.11 st.release, gpu scope. sm_70.
__device__ __forceinline__ void st_release_gpu(uint32_t* address, uint32_t value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// 9.7.9.11 st.release, system scope. sm_70.
__device__ __forceinline__ void st_release_sys(uint32_t* address, uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// 9.7.13.4 fence.acq_rel, gpu scope. sm_70.
__device__ __forceinline__ void fence_acq_rel_gpu() {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

// 9.7.13.5 atom.add.relaxed, gpu scope. sm_70.
__device__ __forceinline__ uint32_t atom_add_relaxed_gpu(uint32_t* address, uint32_t value) {
    uint32_t before;
    asm volatile("atom.add.relaxed.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(address), "r"(value));
    return before;
}

// 9.7.13.5 atom.add.acq_rel, gpu scope. sm_70.
__device__ __forceinline__ uint32_t atom_add_acq_rel_gpu(uint32_t* address, uint32_t value) {
    uint32_t before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(address), "r"(value) : "memory");
    return before;
}

// 9.7.13.5 atom.cas.acq_rel, gpu scope. sm_70.
__device__ __forceinline__ uint32_t atom_cas_acq_rel_gpu(uint32_t* address, uint32_t expected, uint32_t desired) {
    uint32_t before;
    asm volatile("atom.cas.acq_rel.gpu.global.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "l"(address), "r"(expected), "r"(desired)
                 : "memory");
    return before;
}

// 9.7.13.7 red.add.relaxed, gpu scope. sm_70.
__device__ __forceinline__ void red_add_relaxed_gpu(uint32_t* address, uint32_t value) {
    asm volatile("red.add.relaxed.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value));
}

// 9.7.13.7 red.add.relaxed, gpu scope, 64 bits. sm_70.
__device__ __forceinline__ void red_add_relaxed_gpu(uint64_t* address, uint64_t value) {
    asm volatile("red.add.relaxed.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(value));
}

// 9.7.13.7 red.add.release, gpu scope. sm_70.
__device__ __forceinline__ void red_add_release_gpu(uint32_t* address, uint32_t value) {
    asm volatile("red.add.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// 9.7.13.7 red.max.relaxed, gpu scope. sm_70.
__device__ __forceinline__ void red_max_relaxed_gpu(uint32_t* address, uint32_t value) {
    asm volatile("red.max.relaxed.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value));
}

// 9.7.9.5 mov: keeps a value in its register, where the compiler would compute it anew at each use. sm_10.
__device__ __forceinline__ uint32_t mov_b32(uint32_t value) {
    uint32_t kept;
    asm volatile("mov.b32 %0, %1;" : "=r"(kept) : "r"(value));
    return kept;
}

// 9.7.9.8 ld.shared. sm_20.
template <uint32_t kOffset>
__device__ __forceinline__ uint32_t ld_shared(uint32_t shared_address) {
    uint32_t value;
    asm volatile("ld.shared.u32 %0, [%1 + %2];" : "=r"(value) : "r"(shared_address), "n"(kOffset) : "memory");
    return value;
}

// 9.7.9.8 ld.shared, two words. sm_20.
__device__ __forceinline__ uint2 ld_shared_v2(uint32_t shared_address) {
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(shared_address) : "memory");
    return v;
}

// 9.7.9.11 st.shared. sm_20.
template <uint32_t kOffset>
__device__ __forceinline__ void st_shared(uint32_t shared_address, uint32_t value) {
    asm volatile("st.shared.u32 [%0 + %2], %1;" ::"r"(shared_address), "r"(value), "n"(kOffset) : "memory");
}

// 9.7.9.8 ld.shared, four floats. sm_20.
template <uint32_t kOffset>
__device__ __forceinline__ float4 ld_shared_v4(uint32_t shared_address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4 + %5];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(shared_address), "n"(kOffset));
    return v;
}

// 9.7.9.25.3.1 cp.async, 16 bytes, past L1. sm_80.
template <uint32_t kSharedOffset, int32_t kGlobalOffset>
__device__ __forceinline__ void cp_async_cg_16(uint32_t shared_address, const void* global_address) {
    asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %3], 16;" ::"r"(shared_address), "l"(global_address),
                 "n"(kSharedOffset), "n"(kGlobalOffset)
                 : "memory");
}

// 9.7.9.25.3.3 cp.async.wait_all. sm_80.
__device__ __forceinline__ void cp_async_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// 9.7.19.2 nanosleep. sm_70.
__device__ __forceinline__ void nanosleep(uint32_t ns) {
    asm volatile("nanosleep.u32 %0;" ::"r"(ns));
}

}  // namespace ptx
