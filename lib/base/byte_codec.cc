// SPDX-License-Identifier: Apache-2.0
#include "lib/base/byte_codec.h"

namespace weir {

ByteWriter& ByteWriter::append(const void* from, size_t size) {
    const auto* const bytes = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), bytes, bytes + size);
    return *this;
}

}  // namespace weir
