// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A table's schema as bytes, for the manager to keep and pass on. They do not contain the
/// table's number.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/store/table_schema.h"

namespace weir {

/// The form that encode_schema() writes. Form 1, of checkpoints from before, has half as many
/// parameters, and a constant as initial value.
inline constexpr uint32_t kSchemaForm = 2;

[[nodiscard]] std::string encode_schema(const TableSchema& schema);
/// Nothing if the bytes are malformed. check_schema() then says whether the schema is valid.
[[nodiscard]] std::optional<TableSchema> decode_schema(std::string_view bytes,
                                                       uint32_t form = kSchemaForm);

}  // namespace weir
