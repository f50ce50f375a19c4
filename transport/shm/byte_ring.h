// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ByteRing: one producer passes records to one consumer through memory that both can write.
///
/// A record is an 8-byte header {value u32, kind u8, batch u24} and its payload. It takes whole
/// cache lines and is never split: if it does not fit before the end of the ring, a kWrap record
/// fills the gap. There is no shared tail. A header of 0 means that there is no record yet.
/// Before the writer stores a header, it clears the place of the next one. The reader therefore
/// waits on the very cache line that brings the message: one transfer instead of two, and no
/// further one for a message of up to 56 bytes.
///
/// The writer shows a batch of records by storing the header of its first record last. That
/// header says how many records the batch has, so that the reader need not look behind the batch,
/// at a line that the writer has just cleared. The reader publishes `consumed_bytes` once per
/// poll; from it the writer knows how much room there is.
///
/// Neither side trusts the other: it reads every shared word once into a local variable and
/// checks it, and keeps its own positions in private memory.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::transport::shm {

enum class RecordKind : uint8_t {
    kNone = 0,
    kMessage = 1,    ///< value: length in bytes of the payload
    kImmediate = 2,  ///< value: the immediate
    kAccept = 3,     ///< first record of an accepted connection within one process
    kClose = 4,      ///< last record; value: an Errc
    kWrap = 5,       ///< go on at offset 0
};

/// The shared words of one direction, on lines (and prefetch pairs of lines) of their own.
struct RingControl {
    alignas(128) uint64_t consumed_bytes = 0;  ///< written by the reader
    alignas(128) uint32_t armed = 0;           ///< 1 while the reader sleeps; see doorbell.h
};

static_assert(sizeof(RingControl) == 256);

inline constexpr uint64_t kHeaderBytes = 8;
inline constexpr uint64_t kLineBytes = 64;  ///< records begin at multiples of it

/// Bytes of the ring that a record with such a payload takes.
[[nodiscard]] constexpr uint64_t record_bytes(uint64_t payload_bytes) noexcept {
    return (kHeaderBytes + payload_bytes + kLineBytes - 1) & ~(kLineBytes - 1);
}

inline constexpr uint32_t kBatchBit = 40;  ///< where a header has the size of its batch
inline constexpr uint32_t kBatchMax = (1U << 24) - 1;

/// `batch`: in the first record of a batch, how many records the batch has (kWrap does not
/// count); 0 in the other records.
[[nodiscard]] constexpr uint64_t encode_header(RecordKind kind, uint32_t value,
                                               uint32_t batch = 0) noexcept {
    return uint64_t{batch} << kBatchBit | uint64_t{static_cast<uint8_t>(kind)} << 32 | value;
}

/// The producer's end. Thread: one.
class RingWriter {
public:
    RingWriter() = default;

    /// `data` is zeroed, aligned to 8 bytes (better: to a cache line), longer than two of the
    /// longest records plus two lines, and at most kBatchMax lines long.
    RingWriter(RingControl* control, std::span<std::byte> data, uint32_t payload_bytes_max) noexcept
        : control_(control),
          data_(data.data()),
          capacity_bytes_(data.size() / kLineBytes * kLineBytes),
          record_bytes_max_(record_bytes(payload_bytes_max)) {}

    /// Whether there is room for a record of any length. A short record needs as much free room
    /// as a long one, so that it never overtakes a long one that found none. False may also mean
    /// broken().
    [[nodiscard]] bool has_room() noexcept {
        const uint64_t left = capacity_bytes_ - offset_;
        const uint64_t skipped = record_bytes_max_ <= left ? 0 : left;
        return has_room(skipped + record_bytes_max_ + kReserveBytes);
    }

    /// Where the payload of the next record goes; nullptr if there is no room now, or if
    /// broken().
    [[nodiscard]] std::byte* begin(uint32_t payload_bytes) noexcept {
        if (!has_room()) return nullptr;
        const uint64_t bytes = record_bytes(payload_bytes);
        const uint64_t left = capacity_bytes_ - offset_;
        if (bytes > left) {
            offset_ = 0;
            written_bytes_ += left;
            put_header(capacity_bytes_ - left, encode_header(RecordKind::kWrap, 0));
        }
        begun_bytes_ = bytes;
        return data_ + offset_ + kHeaderBytes;
    }

    /// Completes the record that begin() began. The reader sees it after publish().
    void end(RecordKind kind, uint32_t value) noexcept {
        const uint64_t at = offset_;
        offset_ += begun_bytes_;
        if (offset_ == capacity_bytes_) offset_ = 0;
        written_bytes_ += begun_bytes_;
        // relaxed: ordered before the release store that shows this record
        word(offset_).store(0, std::memory_order_relaxed);
        put_header(at, encode_header(kind, value));
        ++withheld_records_;
    }

    /// Adds a record without payload. False: there is no room now.
    [[nodiscard]] bool put(RecordKind kind, uint32_t value) noexcept {
        if (begin(0) == nullptr) return false;
        end(kind, value);
        return true;
    }

    /// Adds the last record. There is always room for it.
    void put_close(uint32_t value) noexcept {
        begun_bytes_ = record_bytes(0);
        end(RecordKind::kClose, value);
    }

    /// Shows the reader all records written so far. False: there was nothing to show.
    bool publish() noexcept {
        if (withheld_header_ == 0) return false;
        // release: payloads, later headers and the cleared header behind them come before it
        word(withheld_at_)
            .store(withheld_header_ | uint64_t{withheld_records_} << kBatchBit,
                   std::memory_order_release);
        withheld_header_ = 0;
        withheld_records_ = 0;
        shown_bytes_ = written_bytes_;
        return true;
    }

    [[nodiscard]] uint64_t withheld_bytes() const noexcept { return written_bytes_ - shown_bytes_; }

    /// Whether the reader claims to have consumed bytes that were never written, or has gone
    /// backwards.
    [[nodiscard]] bool broken() const noexcept { return broken_; }

    [[nodiscard]] RingControl* control() const noexcept { return control_; }

private:
    /// Kept free behind every record: for the cleared next header, and for a kClose, which must
    /// always fit.
    static constexpr uint64_t kReserveBytes = 2 * record_bytes(0);

    [[nodiscard]] std::atomic_ref<uint64_t> word(uint64_t at) const noexcept {
        return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(data_ + at));
    }

    void put_header(uint64_t at, uint64_t header) noexcept {
        if (withheld_header_ == 0) {
            withheld_at_ = at;
            withheld_header_ = header;
        } else {
            // relaxed: the release store of the withheld header before it shows this one
            word(at).store(header, std::memory_order_relaxed);
        }
    }

    [[nodiscard]] bool has_room(uint64_t bytes) noexcept {
        if (bytes <= capacity_bytes_ - (written_bytes_ - consumed_bytes_)) return true;
        // acquire: the reader is done with these bytes before the writer overwrites them
        const uint64_t consumed =
            std::atomic_ref<uint64_t>(control_->consumed_bytes).load(std::memory_order_acquire);
        if (consumed - consumed_bytes_ > written_bytes_ - consumed_bytes_) {
            broken_ = true;
            return false;
        }
        consumed_bytes_ = consumed;
        return bytes <= capacity_bytes_ - (written_bytes_ - consumed_bytes_);
    }

    RingControl* control_ = nullptr;
    std::byte* data_ = nullptr;
    uint64_t capacity_bytes_ = 0;
    uint64_t record_bytes_max_ = 0;
    uint64_t offset_ = 0;          ///< of the next record; < capacity_bytes_
    uint64_t begun_bytes_ = 0;     ///< of the record between begin() and end()
    uint64_t written_bytes_ = 0;   ///< in all, with the gaps that were skipped
    uint64_t shown_bytes_ = 0;     ///< how many of written_bytes_ are published
    uint64_t consumed_bytes_ = 0;  ///< what the reader has consumed, as last seen
    uint64_t withheld_at_ = 0;
    uint64_t withheld_header_ = 0;   ///< 0: nothing is withheld
    uint32_t withheld_records_ = 0;  ///< kWrap does not count
    bool broken_ = false;
};

/// A record as the reader sees it. The payload is still in the ring.
struct Record {
    RecordKind kind = RecordKind::kNone;
    uint32_t value = 0;
    std::span<const std::byte> payload;
};

enum class Take : uint8_t {
    kNothing,  ///< no record yet
    kRecord,
    kBroken,  ///< the ring holds something that no RingWriter writes
};

/// The consumer's end. Thread: one.
class RingReader {
public:
    RingReader() = default;

    RingReader(RingControl* control, std::span<std::byte> data, uint32_t payload_bytes_max) noexcept
        : control_(control),
          data_(data.data()),
          capacity_bytes_(data.size() / kLineBytes * kLineBytes),
          payload_bytes_max_(payload_bytes_max) {}

    /// The word that stops being 0 when the next record is there. It moves with every record
    /// taken.
    [[nodiscard]] uint64_t* watched() const noexcept {
        return reinterpret_cast<uint64_t*>(data_ + offset_);
    }

    [[nodiscard]] static bool ready(uint64_t* watched) noexcept {
        // relaxed: only a hint; take() reads the word again with acquire
        return std::atomic_ref<uint64_t>(*watched).load(std::memory_order_relaxed) != 0;
    }

    /// Takes one record. Its payload stays valid until give_back().
    [[nodiscard]] Take take(Record& record) noexcept {
        uint64_t header = load_header();
        if (header == 0) return Take::kNothing;
        if (batch_left_ == 0) {
            batch_left_ = static_cast<uint32_t>(header >> kBatchBit);
            header &= (uint64_t{1} << kBatchBit) - 1;
            if (batch_left_ == 0) return Take::kBroken;
        }
        if (header == encode_header(RecordKind::kWrap, 0) && offset_ != 0) {
            taken_bytes_ += capacity_bytes_ - offset_;
            offset_ = 0;
            header = load_header();
        }
        const auto value = static_cast<uint32_t>(header);
        const uint64_t kind = header >> 32;
        uint32_t payload_bytes = 0;
        switch (kind) {
            case uint64_t{static_cast<uint8_t>(RecordKind::kMessage)}:
                if (value > payload_bytes_max_ || record_bytes(value) > capacity_bytes_ - offset_) {
                    return Take::kBroken;
                }
                payload_bytes = value;
                break;
            case uint64_t{static_cast<uint8_t>(RecordKind::kImmediate)}:
            case uint64_t{static_cast<uint8_t>(RecordKind::kAccept)}:
            case uint64_t{static_cast<uint8_t>(RecordKind::kClose)}: break;
            default: return Take::kBroken;
        }
        record.kind = static_cast<RecordKind>(kind);
        record.value = value;
        record.payload = {data_ + offset_ + kHeaderBytes, payload_bytes};
        offset_ += record_bytes(payload_bytes);
        if (offset_ == capacity_bytes_) offset_ = 0;
        taken_bytes_ += record_bytes(payload_bytes);
        --batch_left_;
        return Take::kRecord;
    }

    /// Whether the batch of the last record taken has another record. If not, looking for one
    /// costs the transfer of a cache line, and often finds nothing.
    [[nodiscard]] bool has_more() const noexcept { return batch_left_ > 0; }

    /// Gives the room of all records taken so far back to the writer.
    void give_back() noexcept {
        // release: the reader's loads of the payloads come before the writer sees the room
        std::atomic_ref<uint64_t>(control_->consumed_bytes)
            .store(taken_bytes_, std::memory_order_release);
    }

    [[nodiscard]] RingControl* control() const noexcept { return control_; }

private:
    [[nodiscard]] uint64_t load_header() const noexcept {
        // acquire: pairs with publish(); the payload is there once the header is seen
        return std::atomic_ref<uint64_t>(*watched()).load(std::memory_order_acquire);
    }

    RingControl* control_ = nullptr;
    std::byte* data_ = nullptr;
    uint64_t capacity_bytes_ = 0;
    uint64_t offset_ = 0;  ///< of the next record; < capacity_bytes_
    uint64_t taken_bytes_ = 0;
    uint32_t batch_left_ = 0;  ///< of the batch being read, records not taken yet
    uint32_t payload_bytes_max_ = 0;
};

}  // namespace weir::transport::shm
