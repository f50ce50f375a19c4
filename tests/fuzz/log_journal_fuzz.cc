// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes are refused as a journal, by an error that names it, or are read to a state whose
/// own journal is read to the same state.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/consensus/journal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace weir;
    using namespace weir::consensus;
    const Result<LogState> state =
        read_journal("folder/journal-1", 77, 1, std::as_bytes(std::span(data, size)));
    if (!state) {
        WEIR_CHECK(state.error().text().starts_with("folder/journal-1"));
        return 0;
    }
    const std::vector<std::byte> again = JournalWriter(77, 1, *state).take();
    const Result<LogState> same = read_journal("folder/journal-2", 77, 1, again);
    WEIR_CHECK(same.has_value() && *same == *state);
    return 0;
}
