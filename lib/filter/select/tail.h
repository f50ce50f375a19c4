// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tail: drops what is pushed to rare keys, so that they get no rows.

#include <cstddef>
#include <cstdint>

#include "lib/filter/select/count_sketch.h"
#include "lib/filter/select/selector.h"

namespace weir {

/// Keeps an entry from about the n-th push of its key by this worker on: a sketch counts them,
/// which may take a rare key for a frequent one, but never a frequent one for a rare one. What is
/// dropped is lost: that is its purpose.
class Tail final : public Selector {
public:
    struct Options {
        uint32_t first_kept = 2;  ///< n
        uint32_t width = 1U << 20;
        uint32_t depth = 2;
        uint64_t seed = 1;
    };

    /// Errors: as CountSketch::make(); n is 0
    [[nodiscard]] static Result<Tail> make(const Options& options);

    Tail(Tail&& other) noexcept
        : first_kept_(other.first_kept_), sketch_(std::move(other.sketch_)) {}

    Tail(const Tail&) = delete;
    Tail& operator=(const Tail&) = delete;
    Tail& operator=(Tail&&) = delete;
    ~Tail() override = default;

    [[nodiscard]] Status check(const RowKind& rows) const override;

    [[nodiscard]] bool holds_back() const noexcept override { return false; }

    [[nodiscard]] Status select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                                Selection& selection) override;

    [[nodiscard]] const CountSketch& sketch() const noexcept { return sketch_; }

private:
    Tail(uint32_t first_kept, CountSketch sketch)
        : first_kept_(first_kept), sketch_(std::move(sketch)) {}

    uint32_t first_kept_;
    CountSketch sketch_;
};

}  // namespace weir
