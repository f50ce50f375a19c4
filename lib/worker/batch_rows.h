// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// BatchRows and BatchCall: how a table pushes and pulls the rows of a KeyBatch.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_batch.h"
#include "lib/key/value_type.h"
#include "lib/store/rules/rule.h"
#include "lib/worker/calls/call_rows.h"

namespace weir {

class ClientState;

/// Registered memory for rows of the unique keys of a batch. Each call takes a part of it, and the next
/// batch has it again. It keeps the client alive, as a Buffer does.
///
/// Thread: the client's
class BatchRows final : public KeyBatchRows {
public:
    struct Memory {
        std::shared_ptr<std::byte> data = nullptr;
        size_t bytes = 0;
    };

    explicit BatchRows(std::shared_ptr<ClientState> state) noexcept : state_(std::move(state)) {}

    [[nodiscard]] const ClientState* state() const noexcept { return state_.get(); }

    [[nodiscard]] bool is_in_use() const noexcept override { return taken_count_ > 0; }

    /// Errors: kNoMemory
    [[nodiscard]] Result<Memory> take(size_t bytes);

    /// `memory` is empty if a server may still reach it: then it is not used again.
    void put_back(Memory memory);

private:
    std::shared_ptr<ClientState> state_;
    std::vector<Memory> free_;
    size_t taken_count_ = 0;
};

/// A push, a pull or both of a batch, between the caller's rows, one for each key as it came, and those of
/// the unique keys. The keys of the batch stay as they are until it has ended.
///
/// Thread: the client's
class BatchCall final : public CallRows {
public:
    BatchCall(std::shared_ptr<BatchRows> rows, const KeyBatch& batch) noexcept
        : rows_(std::move(rows)),
          key_count_(batch.keys().size()),
          places_(batch.places()),
          counts_(batch.counts()) {}

    BatchCall(const BatchCall&) = delete;
    BatchCall& operator=(const BatchCall&) = delete;
    ~BatchCall() override;

    /// How rows of one key become one.
    struct Combining {
        Combine combine = Combine::kSum;
        ValueType type = ValueType::kFloat32;
        size_t row_bytes = 0;
    };

    /// Where the rows of the unique keys will be from begin() on. `callers`: has a row for each place.
    /// Errors: kNoMemory
    [[nodiscard]] Result<std::span<const std::byte>> push(std::span<const std::byte> callers,
                                                          const Combining& how);
    /// Where they are to come.
    [[nodiscard]] Result<std::span<std::byte>> pull(std::span<std::byte> callers, size_t row_bytes);

    void begin() override;
    void end(bool succeeded) noexcept override;
    [[nodiscard]] bool is_referenced(std::span<const std::byte> memory) const noexcept override;

private:
    std::shared_ptr<BatchRows> rows_;  ///< null: it has ended
    size_t key_count_;
    std::span<const uint32_t> places_;
    std::span<const uint32_t> counts_;
    BatchRows::Memory pushed_;
    std::span<const std::byte> callers_pushed_;
    Combining how_;
    BatchRows::Memory pulled_;
    std::span<std::byte> callers_out_;
    size_t out_row_bytes_ = 0;
};

}  // namespace weir
