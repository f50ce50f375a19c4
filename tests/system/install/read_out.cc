// SPDX-License-Identifier: Apache-2.0
/// \file
/// Writes down a sparse table without knowing its keys, against an installed Weir: one worker
/// counts words as they come, another reads out what there is, and at the end everything.

#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <weir/weir.h>

namespace {

constexpr uint64_t kRounds = 50;
constexpr std::array<const char*, 6> kWords = {"a", "rose", "is", "a", "rose", "again"};

/// A key of any kind: here, the first 8 bytes of the word.
uint64_t key_of(const std::string& word) {
    uint64_t key = 0;
    for (size_t i = 0; i < word.size() && i < 8; ++i)
        key |= uint64_t{static_cast<unsigned char>(word[i])} << (8 * i);
    return key;
}

std::string word_of(uint64_t key) {
    std::string word;
    for (; key != 0; key >>= 8)
        word += static_cast<char>(key & 0xff);
    return word;
}

weir::Status count(weir::Client& client) {
    auto table = client.create_table<uint64_t>("words", {});
    if (!table) return std::move(table).error();
    for (uint64_t round = 0; round < kRounds; ++round) {
        std::map<uint64_t, uint64_t> counts;
        for (const char* word : kWords)
            ++counts[key_of(word)];
        std::vector<uint64_t> keys;
        std::vector<uint64_t> values;
        for (const auto& [key, times] : counts) {
            keys.push_back(key);
            values.push_back(times);
        }
        if (auto pushed = table->push(keys, values).wait(); !pushed) return pushed;
    }
    return client.barrier();
}

weir::Status read_out(weir::Client& client, std::map<std::string, uint64_t>& words) {
    auto table = client.create_table<uint64_t>("words", {});
    if (!table) return std::move(table).error();
    for (const bool all_are_in : {false, true}) {
        if (all_are_in) {  // what was pushed before the barrier is in what is read after it
            if (auto met = client.barrier(); !met) return met;
        }
        words.clear();
        weir::Scan<uint64_t> scan = table->scan();
        while (scan.next()) {
            for (size_t i = 0; i < scan.keys().size(); ++i)
                words[word_of(scan.keys()[i])] = scan.values()[i];
        }
        if (!scan.status()) return scan.status();
    }
    return {};
}

}  // namespace

int main() {
    std::map<std::string, uint64_t> words;
    const weir::Status done =
        weir::run({.shards_per_server = 2, .workers = 2}, [&](weir::Client& client) {
            return client.worker() == 0 ? count(client) : read_out(client, words);
        });
    if (!done) std::fprintf(stderr, "read_out: %s\n", done.error().message().c_str());
    for (const auto& [word, times] : words)
        std::printf("%s: %llu\n", word.c_str(), static_cast<unsigned long long>(times));
    const std::map<std::string, uint64_t> expected = {
        {"a", 2 * kRounds}, {"again", kRounds}, {"is", kRounds}, {"rose", 2 * kRounds}};
    return done && words == expected ? 0 : 1;
}
