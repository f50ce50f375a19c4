// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WEIR_KERNEL: before a function whose loops should use the widest vectors of the running CPU.
/// One binary then serves every x86-64 machine; elsewhere, and under sanitizers (whose runtime is
/// not up yet when the choice is made), the function is compiled once for the baseline.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WEIR_KERNEL __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define WEIR_KERNEL
#endif
