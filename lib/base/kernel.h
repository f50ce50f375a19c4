// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WEIR_KERNEL: stands before a function whose loops should use the widest vectors of the running
/// CPU. The compiler makes one copy per instruction set, and the loader chooses, so one binary
/// serves every x86-64 machine. On other machines, with clang, and under sanitizers (whose
/// runtime is not up yet when the loader chooses) there is one copy, for the baseline.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WEIR_KERNEL __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define WEIR_KERNEL
#endif
