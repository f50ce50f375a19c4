// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TableFilters: what the calls of a client to one table send: which rows, by its selectors, and in which
/// codecs.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/filter/body.h"
#include "lib/filter/filters.h"
#include "lib/filter/select/held_back.h"
#include "lib/filter/select/selector.h"
#include "lib/wire/filter_traffic.h"
#include "lib/worker/calls/operation.h"
#include "lib/worker/calls/selected_rows.h"
#include "lib/worker/filters/codec_choice.h"

namespace weir {

/// What is held back in a table: whichever filters its calls name.
class HeldRows {
public:
    /// More is sent at once.
    static constexpr size_t kBytesMax = size_t{256} << 20;

    HeldRows(const RowKind& rows, std::optional<KeyRange> dense) : rows_(rows), dense_(dense) {}

    [[nodiscard]] const RowKind& rows() const noexcept { return rows_; }

    [[nodiscard]] HeldBack& held() {
        if (!held_) held_.emplace(rows_, kBytesMax, dense_);
        return *held_;
    }

    [[nodiscard]] size_t count() const noexcept { return held_ ? held_->row_count() : 0; }

    /// As a push of all of it.
    [[nodiscard]] std::shared_ptr<SelectedRows> take_all();

    /// Holds again what take_all() has given out: nothing of it was sent.
    void put_back(const SelectedRows& all);

    /// The table is there no more.
    void drop() noexcept { held_.reset(); }

    /// The next part of an iteration takes all along.
    bool is_flushed = false;

private:
    RowKind rows_;
    std::optional<KeyRange> dense_;
    std::optional<HeldBack> held_;
};

/// Thread: the client's
class TableFilters {
public:
    /// `own`: the table's codec, if `filters` name that; else null.
    /// Errors: as Filters::make_selector()
    [[nodiscard]] static Result<std::unique_ptr<TableFilters>> make(const Filters& filters,
                                                                    const ValueCodec* own,
                                                                    HeldRows& held,
                                                                    const Clock& clock,
                                                                    uint64_t seed);

    [[nodiscard]] const Filters& filters() const noexcept { return filters_; }

    [[nodiscard]] Codecs codecs() const noexcept { return codecs_; }

    [[nodiscard]] const ValueCodec* own() const noexcept { return own_; }

    /// Codecs are used where they save time: `pushes` and `pulls` say which.
    [[nodiscard]] bool is_automatic() const noexcept { return is_automatic_; }

    CodecChoice pushes;
    CodecChoice pulls;

    /// Has a push be of the rows that are selected: once for each call, before it is cut. Returns whether
    /// it has other keys now. `traffic`: gets the rows that came and those that are kept.
    /// Errors: of a selector; Errc::kNotFinite if what is held and what is pushed are too large together. Call
    ///         undo() then
    [[nodiscard]] Result<bool> select(Operation& push, FilterTraffic& traffic);

    // Around select() of all pushes of a call: begin(), and end() if they are sent, else undo(), after which all is
    // held that was before. What a selector has learned or spent it keeps.
    void begin();
    void end();
    void undo();

private:
    TableFilters(Filters filters, const ValueCodec* own, HeldRows& held,
                 std::unique_ptr<Selector> selector)
        : filters_(std::move(filters)),
          codecs_(filters_.codecs()),
          is_automatic_(filters_.is_automatic()),
          own_(own),
          held_(held),
          selector_(std::move(selector)) {}

    void take_held_along(Operation& push, SelectedRows& rows);
    [[nodiscard]] Status check_finite() const;

    Filters filters_;
    Codecs codecs_;
    bool is_automatic_;
    const ValueCodec* own_;
    HeldRows& held_;
    std::unique_ptr<Selector> selector_;  ///< null: none
    Selection selection_;                 ///< kept for its memory, as what follows
    MergedRows merged_;
    std::vector<uint64_t> held_keys_;
    std::vector<std::byte> held_values_;
    bool may_change_held_ = false;  ///< in this call; codecs alone hold nothing
    bool was_flushed_ = false;      ///< HeldRows::is_flushed at begin()
};

}  // namespace weir
