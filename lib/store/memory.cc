// SPDX-License-Identifier: Apache-2.0
#include "lib/store/memory.h"

#include <cstring>
#include <new>

namespace weir {

std::byte* HeapMemory::allocate(size_t bytes, size_t alignment) noexcept {
    if (bytes > limit_bytes_ || bytes_in_use_ > limit_bytes_ - bytes) return nullptr;
    void* data = ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
    if (data == nullptr) return nullptr;
    bytes_in_use_ += bytes;
    return static_cast<std::byte*>(std::memset(data, 0, bytes));
}

void HeapMemory::deallocate(std::byte* data, size_t bytes, size_t alignment) noexcept {
    bytes_in_use_ -= bytes;
    ::operator delete(data, std::align_val_t(alignment));
}

}  // namespace weir
