// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/agree_on_error.h"

#include <cstring>
#include <string>
#include <vector>

#include "lib/apps/allgather.h"

namespace weir::apps {
namespace {

constexpr uint64_t kHeadWordCount = 3;  // code, errno, bytes of text; then the text

}  // namespace

Status agree_on_error(BlockExchange& exchange, Status& outcome) {
    std::vector<uint64_t> mine;
    if (!outcome) {
        const Error& error = outcome.error();
        const uint64_t text_words = (error.text().size() + sizeof(uint64_t) - 1) / sizeof(uint64_t);
        mine.resize(kHeadWordCount + text_words);
        mine[0] = static_cast<uint64_t>(error.code());
        mine[1] = static_cast<uint32_t>(error.os_error());
        mine[2] = error.text().size();
        std::memcpy(mine.data() + kHeadWordCount, error.text().data(), error.text().size());
    }
    WEIR_ASSIGN(const std::vector<uint64_t> all, allgather(exchange, mine));
    if (all.empty()) return {};
    if (all.size() < kHeadWordCount || all[0] == 0 ||
        all[2] > (all.size() - kHeadWordCount) * sizeof(uint64_t)) {
        return Error(
            Errc::kProtocol,
            "the error that a worker reported cannot be read; start all ranks with the same "
            "version of the program");
    }
    std::string text(all[2], '\0');
    std::memcpy(text.data(), all.data() + kHeadWordCount, text.size());
    outcome = Error(static_cast<Errc>(all[0]), std::move(text), static_cast<int>(all[1]));
    return {};
}

}  // namespace weir::apps
