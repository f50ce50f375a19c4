// SPDX-License-Identifier: Apache-2.0
#include "lib/data/text/gzip_bytes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>
#include <unistd.h>

namespace weir::data {
namespace {

constexpr size_t kPackedBytes = 1U << 18;
constexpr int kGzipOnly = 16 + MAX_WBITS;
constexpr unsigned char kMagic[] = {0x1f, 0x8b};

}  // namespace

Result<std::unique_ptr<GzipBytes>> GzipBytes::open(Descriptor fd, std::string path,
                                                   std::string_view first_bytes, StopReading stop) {
    std::unique_ptr<GzipBytes> bytes(
        new GzipBytes(std::move(fd), std::move(path), std::move(stop)));
    if (inflateInit2(&bytes->stream_, kGzipOnly) != Z_OK) {
        return Error(Errc::kNoMemory,
                     fmt::format("{}: not enough memory to unpack it; allow more", bytes->path_));
    }
    bytes->packed_.resize(kPackedBytes);
    std::copy(first_bytes.begin(), first_bytes.end(), bytes->packed_.begin());
    bytes->stream_.next_in = bytes->packed_.data();
    bytes->stream_.avail_in = static_cast<unsigned>(first_bytes.size());
    bytes->read_bytes_ = first_bytes.size();
    return bytes;
}

GzipBytes::~GzipBytes() {
    (void)inflateEnd(&stream_);
}

Error GzipBytes::wrong(std::string_view what) const {
    return {Errc::kParse,
            fmt::format("{}: {}; fetch the file again (gzip -t tests it)", path_, what)};
}

/// Reads more packed bytes after the unused ones, until there are at least two or the file ends.
Status GzipBytes::refill() {
    if (stream_.avail_in > 0) std::memmove(packed_.data(), stream_.next_in, stream_.avail_in);
    stream_.next_in = packed_.data();
    while (!at_end_ && stream_.avail_in < sizeof kMagic) {
        const std::span<unsigned char> free = std::span(packed_).subspan(stream_.avail_in);
        WEIR_ASSIGN(const uint64_t got,
                    read_some(fd_.get(), path_, {reinterpret_cast<char*>(free.data()), free.size()},
                              stop_));
        at_end_ = got == 0;
        stream_.avail_in += static_cast<unsigned>(got);
        read_bytes_ += got;
    }
    return {};
}

/// Starts the next member. At the end of the file, or at zeros up to it, there is none.
Status GzipBytes::begin_member() {
    if (stream_.avail_in < sizeof kMagic) WEIR_TRY(refill());
    if (stream_.avail_in == 0) return {};
    const bool magic = stream_.avail_in >= sizeof kMagic &&
                       std::equal(std::begin(kMagic), std::end(kMagic), stream_.next_in);
    if (!magic) return skip_zeros();
    if (member_count_ > 0) (void)inflateReset(&stream_);
    ++member_count_;
    in_member_ = true;
    return {};
}

Status GzipBytes::skip_zeros() {
    while (stream_.avail_in > 0) {
        const unsigned char* const end = stream_.next_in + stream_.avail_in;
        const unsigned char* const other =
            std::find_if(stream_.next_in, stream_.next_in + stream_.avail_in,
                         [](unsigned char byte) { return byte != 0; });
        if (other != end) {
            const auto offset = read_bytes_ - static_cast<uint64_t>(end - other);
            return wrong(fmt::format(
                "the bytes from {} on, after the end of a gzip stream, are not gzip", offset));
        }
        stream_.avail_in = 0;
        WEIR_TRY(refill());
    }
    return {};
}

/// Unpacks until the output is full, the member ends, or all that was read is used.
Status GzipBytes::unpack() {
    if (stream_.avail_in == 0) WEIR_TRY(refill());
    if (stream_.avail_in == 0) return wrong("the gzip stream is cut off");
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) in_member_ = false;
    if (code == Z_MEM_ERROR) {
        return Error(Errc::kNoMemory,
                     fmt::format("{}: not enough memory to unpack it; allow more", path_));
    }
    // Z_BUF_ERROR: inflate() needs more input, which the next call reads.
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        return wrong("the gzip stream is corrupt");
    }
    return {};
}

Result<uint64_t> GzipBytes::read(std::span<char> into) {
    stream_.next_out = reinterpret_cast<unsigned char*>(into.data());
    stream_.avail_out = static_cast<unsigned>(into.size());
    const auto is_done = [&] {  // what comes next may come late
        return stream_.avail_out == 0 || (stream_.avail_in == 0 && stream_.avail_out < into.size());
    };
    while (!is_done()) {
        if (!in_member_) WEIR_TRY(begin_member());
        if (!in_member_) break;
        WEIR_TRY(unpack());
    }
    return into.size() - stream_.avail_out;
}

}  // namespace weir::data
