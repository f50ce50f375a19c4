// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: what a shm peer can write. It changes a ring's memory and the words beside it
/// between the reads of a RingReader and the writes of a RingWriter, and sends notes about regions.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lib/base/check.h"
#include "transport/shm/byte_ring.h"
#include "transport/shm/memory/peer_regions.h"
#include "transport/shm/memory/regions.h"

namespace {

using namespace weir::transport::shm;

constexpr uint32_t kPayloadMax = 64;
constexpr size_t kRingBytes = 1024;

/// Takes bytes from the front of the input; zeroes when none are left.
class Input {
public:
    Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}

    [[nodiscard]] bool empty() const { return left_ == 0; }

    template <class T>
    T take() {
        T value{};
        const size_t bytes = std::min(left_, sizeof(T));
        std::memcpy(static_cast<void*>(&value), data_, bytes);
        data_ += bytes;
        left_ -= bytes;
        return value;
    }

private:
    const uint8_t* data_;
    size_t left_;
};

/// Reads as the endpoint does: all records, or those of one batch.
void read_some(RingReader& in, std::span<const std::byte> ring, bool one_batch) {
    for (int i = 0; i < 64; ++i) {
        Record record;
        if (in.take(record) != Take::kRecord) break;
        WEIR_CHECK(record.payload.data() >= ring.data());
        WEIR_CHECK(record.payload.data() + record.payload.size() <= ring.data() + ring.size());
        WEIR_CHECK(record.payload.size() <= kPayloadMax);
        uint8_t sum = 0;  // ASan checks that every byte can be read
        for (const std::byte byte : record.payload)
            sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(byte));
        static_cast<void>(*const_cast<volatile uint8_t*>(&sum));
        if (one_batch && !in.has_more()) break;
    }
    in.give_back();
}

void write_some(RingWriter& out, uint8_t length) {
    const uint32_t bytes = length % (kPayloadMax + 1);
    std::byte* const room = out.broken() ? nullptr : out.begin(bytes);
    if (room == nullptr) return;
    std::memset(room, length, bytes);
    out.end(RecordKind::kMessage, bytes);
    if (length % 2 == 0) out.publish();
}

void fuzz_ring(Input& input) {
    std::vector<uint64_t> memory(kRingBytes / 8, 0);  // on the heap: ASan guards its ends
    const std::span<std::byte> ring = std::as_writable_bytes(std::span(memory));
    RingControl control;
    RingWriter out(&control, ring, kPayloadMax);
    RingReader in(&control, ring, kPayloadMax);
    while (!input.empty()) {
        const auto step = input.take<uint8_t>();
        switch (step % 6) {
            case 0: memory[input.take<uint8_t>() % memory.size()] = input.take<uint64_t>(); break;
            case 1: control.consumed_bytes = input.take<uint64_t>(); break;
            case 2: read_some(in, ring, input.take<uint8_t>() % 2 == 0); break;
            case 3: write_some(out, input.take<uint8_t>()); break;
            case 4: control.consumed_bytes += input.take<uint8_t>(); break;
            default:
                // A plausible header where the reader looks next.
                *in.watched() = encode_header(static_cast<RecordKind>(input.take<uint8_t>() % 7),
                                              input.take<uint8_t>() % (kPayloadMax + 16),
                                              input.take<uint8_t>() % 4);
                break;
        }
    }
}

void fuzz_notes(Input& input) {
    auto page = make_private(kLivePageBytes, "a fuzz run");
    WEIR_CHECK(page.has_value());
    std::memset(page->bytes().data(), 1, 64);  // some slots are in use, all with the same tag
    PeerRegions regions(std::move(*page), {8, 1 << 20});
    while (!input.empty()) {
        const auto note = input.take<RegionNote>();
        static_cast<void>(regions.add(note, -1));
        const PeerRegion* const found = regions.find(note.key);
        if (found != nullptr) {
            WEIR_CHECK(found->base_address + found->length_bytes >= found->base_address);
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    if (input.take<uint8_t>() % 8 == 0) {
        fuzz_notes(input);
    } else {
        fuzz_ring(input);
    }
    return 0;
}
