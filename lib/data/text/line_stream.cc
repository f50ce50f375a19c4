// SPDX-License-Identifier: Apache-2.0
#include "lib/data/text/line_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "lib/data/input_file.h"
#include "lib/data/text/gzip_bytes.h"

namespace weir::data {

namespace {

class PlainBytes final : public ByteSource {
public:
    PlainBytes(Descriptor fd, std::string path, uint64_t offset)
        : fd_(std::move(fd)), path_(std::move(path)), offset_(offset) {}

    Result<uint64_t> read(std::span<char> into) override {
        uint64_t done = 0;
        while (done < into.size()) {
            const ssize_t got = ::pread(fd_.get(), into.data() + done, into.size() - done,
                                        static_cast<off_t>(offset_));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return Error(Errc::kIo, fmt::format("{}: cannot be read", path_), errno);
            if (got == 0) break;
            done += static_cast<uint64_t>(got);
            offset_ += static_cast<uint64_t>(got);
        }
        return done;
    }

private:
    Descriptor fd_;
    std::string path_;
    uint64_t offset_;
};

/// A stream that can be read only once. `first_bytes`: already read from it.
class StreamBytes final : public ByteSource {
public:
    StreamBytes(Descriptor fd, std::string path, std::string first_bytes, StopReading stop)
        : fd_(std::move(fd)),
          path_(std::move(path)),
          first_bytes_(std::move(first_bytes)),
          stop_(std::move(stop)) {}

    Result<uint64_t> read(std::span<char> into) override {
        if (first_bytes_.empty()) return read_some(fd_.get(), path_, into, stop_);
        const uint64_t done = first_bytes_.copy(into.data(), into.size());
        first_bytes_.erase(0, done);
        return done;
    }

private:
    Descriptor fd_;
    std::string path_;
    std::string first_bytes_;
    StopReading stop_;
};

/// Opens a stream as plain text or gzip, which its first bytes tell.
Result<std::unique_ptr<ByteSource>> open_stream(Descriptor fd, const std::string& path,
                                                const StopReading& stop) {
    const std::string name = input_name(path);
    std::array<char, kMagicBytes> bytes{};
    size_t count = 0;
    while (count < bytes.size()) {
        WEIR_ASSIGN(const uint64_t got,
                    read_some(fd.get(), name, std::span(bytes).subspan(count), stop));
        if (got == 0) break;
        count += got;
    }
    std::string first_bytes(bytes.data(), count);
    WEIR_TRY(check_unpacked(first_bytes, path));
    if (first_bytes.empty()) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} is empty; it should hold LIBSVM lines", name));
    }
    if (!is_gzip(first_bytes))
        return std::unique_ptr<ByteSource>(
            std::make_unique<StreamBytes>(std::move(fd), name, std::move(first_bytes), stop));
    WEIR_ASSIGN(std::unique_ptr<GzipBytes> unpacked,
                GzipBytes::open(std::move(fd), name, first_bytes, stop));
    return std::unique_ptr<ByteSource>(std::move(unpacked));
}

uint64_t count_newlines(std::string_view text) {
    return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

Result<LineStream> LineStream::open(FileShare share, const StopReading& stop) {
    const std::string name = input_name(share.path);
    Descriptor fd = open_input(share.path);
    if (!fd) return Error(Errc::kIo, fmt::format("{}: cannot be opened", name), errno);
    LineStream stream;
    // One byte earlier, where a line that starts exactly at `begin` has the newline before it.
    stream.position_ = share.begin == 0 ? 0 : share.begin - 1;
    if (share.stream) {
        WEIR_ASSIGN(stream.source_, open_stream(std::move(fd), share.path, stop));
    } else if (share.gzip) {
        WEIR_ASSIGN(stream.source_, GzipBytes::open(std::move(fd), name));
    } else {
        ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
        stream.source_ = std::make_unique<PlainBytes>(std::move(fd), name, stream.position_);
    }
    stream.buffer_.resize(share.piece_bytes);
    stream.share_ = std::move(share);
    if (stream.share_.begin > 0) WEIR_TRY(stream.skip_cut_line());
    return stream;
}

/// Drops the last piece from the buffer, then reads until the buffer is full or the source ends; of a stream what
/// is there.
Status LineStream::fill() {
    std::memmove(buffer_.data(), buffer_.data() + used_bytes_, filled_bytes_ - used_bytes_);
    filled_bytes_ -= used_bytes_;
    position_ += used_bytes_;
    used_bytes_ = 0;
    bool goes_on = true;
    while (goes_on && !at_end_ && filled_bytes_ < buffer_.size()) {
        WEIR_ASSIGN(const uint64_t got, source_->read(std::span(buffer_).subspan(filled_bytes_)));
        filled_bytes_ += got;
        at_end_ = got == 0;
        goes_on = !share_.stream;
    }
    return {};
}

/// Skips the rest of the line that starts before the share: another reader reads that line.
Status LineStream::skip_cut_line() {
    while (true) {
        WEIR_TRY(fill());
        const void* newline = std::memchr(buffer_.data(), '\n', filled_bytes_);
        if (newline != nullptr) {
            used_bytes_ =
                static_cast<uint64_t>(static_cast<const char*>(newline) - buffer_.data()) + 1;
            return {};
        }
        used_bytes_ = filled_bytes_;
        if (at_end_) return {};
    }
}

Result<std::string_view> LineStream::next_piece() {
    WEIR_TRY(fill());
    while (true) {
        if ((filled_bytes_ == 0 && at_end_) || position_ >= share_.end) {
            finished_ = true;
            return std::string_view();
        }
        const void* newline = ::memrchr(buffer_.data(), '\n', filled_bytes_);
        if (at_end_ || newline != nullptr) {
            used_bytes_ =
                at_end_
                    ? filled_bytes_
                    : static_cast<uint64_t>(static_cast<const char*>(newline) - buffer_.data()) + 1;
            break;
        }
        if (filled_bytes_ == buffer_.size() && buffer_.size() >= kLineBytesMax) {
            return Error(Errc::kParse,
                         fmt::format("{}: no line end within {} MiB; is this a LIBSVM text file?",
                                     input_name(share_.path), kLineBytesMax >> 20));
        }
        if (filled_bytes_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
        WEIR_TRY(fill());
    }
    if (position_ + used_bytes_ > share_.end) {  // the line that crosses the end is the last one
        const uint64_t from = share_.end - 1 - position_;
        const void* newline = std::memchr(buffer_.data() + from, '\n', used_bytes_ - from);
        if (newline != nullptr) {
            used_bytes_ =
                static_cast<uint64_t>(static_cast<const char*>(newline) - buffer_.data()) + 1;
        }
        finished_ = true;
    }
    return std::string_view(buffer_.data(), used_bytes_);
}

Result<std::string_view> LineStream::next() {
    while (!finished_) {
        lines_before_ += last_newline_count_;
        last_newline_count_ = 0;
        WEIR_ASSIGN(const std::string_view piece, next_piece());
        if (counts_lines()) last_newline_count_ = count_newlines(piece);
        const bool mine = piece_index_++ % share_.pieces.count == share_.pieces.index;
        if (piece.empty() || !mine) continue;
        text_bytes_ += piece.size();
        return piece;
    }
    return std::string_view();
}

Result<uint64_t> LineStream::line_number(uint64_t offset_bytes) const {
    WEIR_CHECK(offset_bytes <= used_bytes_);
    uint64_t count = count_newlines({buffer_.data(), offset_bytes});
    if (counts_lines()) return lines_before_ + count + 1;
    const std::string name = input_name(share_.path);
    Descriptor fd = open_input(share_.path);
    if (!fd) return Error(Errc::kIo, fmt::format("{}: cannot be opened", name), errno);
    PlainBytes start(std::move(fd), name, 0);
    std::vector<char> bytes(FileShare::kPieceBytes);
    for (uint64_t done = 0; done < position_;) {
        const uint64_t wanted = std::min<uint64_t>(bytes.size(), position_ - done);
        WEIR_ASSIGN(const uint64_t got, start.read({bytes.data(), wanted}));
        if (got == 0) break;
        count += count_newlines({bytes.data(), got});
        done += got;
    }
    return count + 1;
}

}  // namespace weir::data
