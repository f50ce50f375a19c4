// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Selector: chooses which entries of a push travel, and with which values. The base of Weir's own
/// and of a user's.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/filter/bitmap.h"
#include "lib/key/call_keys.h"
#include "lib/key/combine.h"
#include "lib/key/value_type.h"

namespace weir {

class HeldBack;

/// A table, as selectors see it. `type`: a computed one.
struct RowKind {
    ValueType type = ValueType::kFloat32;
    uint32_t width = 1;  ///< values that are pushed to a key
    Combine combine = Combine::kSum;

    [[nodiscard]] size_t row_bytes() const noexcept { return width * size_of(type); }
};

/// A row for each key, aligned for their type. Floating ones are finite: the client has checked
/// that.
struct PushedRows {
    CallKeys keys;
    std::span<const std::byte> values;
};

/// What travels. Reused from call to call, it soon allocates nothing.
struct Selection {
    std::vector<std::byte> kept;    ///< of the keys of the call (bitmap.h)
    size_t kept_count = 0;          ///< its bits that are set
    std::vector<std::byte> values;  ///< rows of the kept keys, in their order

    /// Has all entries kept, with these values.
    void keep_all(const PushedRows& push);

    /// Has `kept_count` and `values` follow from `kept`. Shape: `rows` has a row for each key
    void keep_of(std::span<const std::byte> rows, size_t row_bytes);

    /// Begins a selection of so many keys, none of which is kept yet.
    void begin(size_t key_count);

    /// Adds the rows of the next keys whose bits are set. Shape: `of_next` has their bits, `rows` a
    /// row for each
    void add_kept(std::span<const std::byte> of_next, std::span<const std::byte> rows,
                  size_t row_bytes);
};

/// Called once for each call of push, before it is cut into pieces; so what is sent again is not
/// selected again. What it keeps shares the fate of the call and is never put back. What is held
/// back stays held, whatever becomes of the call. It may keep what it likes from call to call: it
/// has one table of one worker.
///
/// Thread: the one of the client
class Selector {
public:
    Selector() = default;
    virtual ~Selector() = default;
    Selector(const Selector&) = delete;
    Selector& operator=(const Selector&) = delete;

    /// Whether tables of such rows can have this selector. Asked once, before anything else.
    [[nodiscard]] virtual Status check(const RowKind& rows) const = 0;

    /// Whether select() uses `held`. It is refused for tables whose pushes cannot be held
    /// (HeldBack::check()).
    [[nodiscard]] virtual bool holds_back() const noexcept = 0;

    /// Whether it rounds what it keeps: then no other selector may come behind it.
    [[nodiscard]] virtual bool rounds() const noexcept { return false; }

    /// Makes `selection` of `push`. Who holds back takes what is held for keys of `push` along,
    /// keeps an entry or holds it, and has no way to other keys.
    ///
    /// Errors: the push is not sent; `held` is as before
    [[nodiscard]] virtual Status select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                                        Selection& selection) = 0;
};

}  // namespace weir
