// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Filters: what a table, or a call, does to pushes on their way, as a program says it.
///
/// ```cpp
/// const weir::Filters sparse{weir::filters::significant(0.01), weir::filters::zeros()};
/// WEIR_ASSIGN(const weir::Filters same, weir::Filters::parse("significant=0.01,zeros"));
/// ```
///
/// Selectors choose what travels, in the order in which they are named; codecs then say it in fewer
/// bytes, without loss, in an order of their own.
///
/// | in C++ | as text | |
/// | --- | --- | --- |
/// | significant(delta) | significant=DELTA | rows that have changed by more than delta since they were last sent; the rest is held |
/// | significant_relative(delta) | significant-relative=DELTA | by more than delta times what was last sent |
/// | random_skip(q) | random-skip=Q | each row with probability q, scaled by 1 / q |
/// | top_by_budget(rate, burst) | top=RATE:BURST | the largest changes, as many as so many bytes per second allow; at once no more than the burst; the rest is held |
/// | tail(n) | tail=N | keys from their n-th push on; earlier ones are lost |
/// | round(form) | round=FORM | floats of few bits, rounded so that their mean is exact; what rounding took is part of the next push. The last selector |
/// | round(form, false) | round=FORM:no-rests | what rounding took is lost |
/// | own(name, factory) | | a selector of the program |
/// | zeros() | zeros | leaves out zeros |
/// | integers() | integers | counts, rounded values and the like in few bits |
/// | compress() | compress | Snappy; keys as differences |
/// | table_codec() | table-codec | the codec that the table names (TableOptions::codec) |
/// | automatic() | auto | zeros, integers and compress, where they save time |
///
/// A codec with which a body would be no shorter is left out of that body.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/filter/codecs.h"
#include "lib/filter/select/round_form.h"

namespace weir {

class Clock;
class Selector;
struct RowKind;

/// Makes selectors of a class that a program has derived from Selector.
///
/// Thread: any, several at once
class SelectorFactory {
public:
    SelectorFactory() = default;
    virtual ~SelectorFactory() = default;
    SelectorFactory(const SelectorFactory&) = delete;
    SelectorFactory& operator=(const SelectorFactory&) = delete;

    /// Makes one for a table of one worker. It is called once more to ask whether tables of such
    /// rows can have it.
    ///
    /// `clock` lives longer than the selector. `seed` is another one for each selector: two that draw
    /// from it draw differently.
    /// Returns: not null
    [[nodiscard]] virtual Result<std::unique_ptr<Selector>> make(const RowKind& rows,
                                                                 const Clock& clock,
                                                                 uint64_t seed) const = 0;
};

/// One of them, by name, with its numbers. The functions in weir::filters make them.
struct Filter {
    std::string name;
    std::vector<double> numbers{};
    std::shared_ptr<const SelectorFactory> own{};

    friend bool operator==(const Filter&, const Filter&) = default;
};

class Filters {
public:
    /// None.
    Filters() = default;

    /// Selectors in this order. Whether they make sense is for check() to say.
    Filters(std::initializer_list<Filter> filters);

    /// "none", or filters as in the table above with commas between them.
    ///
    /// Errors: kParse: an unknown name, or something else than a number; kInvalidArgument: as check(),
    ///         as far as rows do not matter
    [[nodiscard]] static Result<Filters> parse(std::string_view text);

    /// What parse() takes, and makes the same of: but for selectors of the program.
    [[nodiscard]] std::string text() const;

    /// The codecs that are wanted of lib/filter/codecs.h.
    [[nodiscard]] Codecs codecs() const noexcept;

    /// Whether codecs are for the client to choose, where the link is slower than they are.
    [[nodiscard]] bool is_automatic() const noexcept;

    [[nodiscard]] bool empty() const noexcept { return filters_.empty(); }

    [[nodiscard]] bool has_selectors() const noexcept;

    [[nodiscard]] bool has_table_codec() const noexcept { return (codecs() & kTablesOwn) != 0; }

    /// Those that change no value: the codecs.
    [[nodiscard]] Filters without_selectors() const;

    /// Whether tables of such rows can have them.
    ///
    /// Errors: kInvalidArgument: a filter twice, a number that is out of range, selectors in an order
    ///         or on rows that they are not for; kTypeMismatch: values of another type. Those of a
    ///         factory
    [[nodiscard]] Status check(const RowKind& rows) const;

    /// Makes the selectors for a table of one worker.
    ///
    /// `clock` lives longer than the selector. `seed`: no other selector has it, of this worker or
    /// of others, or both draw the same.
    /// Returns: all of them as one; null: there are none
    /// Errors:  as check()
    [[nodiscard]] Result<std::unique_ptr<Selector>> make_selector(const RowKind& rows,
                                                                  const Clock& clock,
                                                                  uint64_t seed) const;

    friend bool operator==(const Filters&, const Filters&) = default;

private:
    explicit Filters(std::vector<Filter> filters);

    [[nodiscard]] Status check_numbers() const;

    std::vector<Filter> filters_;  ///< selectors as they were named, then codecs in one order
};

namespace filters {

[[nodiscard]] Filter zeros();
[[nodiscard]] Filter integers();
[[nodiscard]] Filter compress();

/// It comes before integers. For tables that name a codec; auto does not use that.
[[nodiscard]] Filter table_codec();
[[nodiscard]] Filter automatic();

/// delta >= 0; 0: all is sent but zeros. Not for rules that take means.
[[nodiscard]] Filter significant(double delta);
[[nodiscard]] Filter significant_relative(double delta);

/// 0 < q <= 1. For sums of floats.
[[nodiscard]] Filter random_skip(double q);

/// Both at least 1, the burst enough for a row and its key. Not for rules that take means.
[[nodiscard]] Filter top_by_budget(double bytes_per_second, double burst_bytes);

/// first_kept >= 1
[[nodiscard]] Filter tail(uint32_t first_kept);

/// Where float32 is pushed. With rests: for sums.
[[nodiscard]] Filter round(RoundForm form, bool adds_rests = true);

/// `name`: of no other filter, for messages.
[[nodiscard]] Filter own(std::string name, std::shared_ptr<const SelectorFactory> factory);

}  // namespace filters

}  // namespace weir
