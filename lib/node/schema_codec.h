// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A table's schema as bytes, for the manager to keep and compare. The table's number is not part
/// of it.

#include <optional>
#include <string>
#include <string_view>

#include "lib/store/table_schema.h"

namespace weir {

[[nodiscard]] std::string encode_schema(const TableSchema& schema);
/// Nothing if the bytes are not a schema's; whether it makes sense is check_schema()'s business.
[[nodiscard]] std::optional<TableSchema> decode_schema(std::string_view bytes);

}  // namespace weir
