// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// GzipBytes: a gzip file, unpacked while it is read. It may have several members, as
/// `cat a.gz b.gz` makes, and zeros after them, as tapes do. Other bytes after a member are an
/// error; zlib's gzread() would take them for the end.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

#include "lib/base/descriptor.h"
#include "lib/data/input_file.h"
#include "lib/data/text/byte_source.h"

namespace weir::data {

/// Thread: one.
class GzipBytes final : public ByteSource {
public:
    /// `fd` stands at the start of the file, or
    /// after `first_bytes`, which the caller has read from it.
    ///
    /// path:   for messages
    /// stop:   of a stream
    /// Errors: kNoMemory
    [[nodiscard]] static Result<std::unique_ptr<GzipBytes>> open(Descriptor fd, std::string path,
                                                                 std::string_view first_bytes = {},
                                                                 StopReading stop = {});
    ~GzipBytes() override;
    GzipBytes(const GzipBytes&) = delete;
    GzipBytes& operator=(const GzipBytes&) = delete;

    /// Errors: kIo; kNoMemory; kCancelled; kParse for a file that is cut off, damaged, or gzip only in part
    [[nodiscard]] Result<uint64_t> read(std::span<char> into) override;

private:
    GzipBytes(Descriptor fd, std::string path, StopReading stop)
        : fd_(std::move(fd)), path_(std::move(path)), stop_(std::move(stop)) {}

    [[nodiscard]] Status refill();
    [[nodiscard]] Status begin_member();
    [[nodiscard]] Status unpack();
    [[nodiscard]] Status skip_zeros();
    [[nodiscard]] Error wrong(std::string_view what) const;

    Descriptor fd_;
    std::string path_;
    StopReading stop_;
    z_stream stream_ = {};
    std::vector<unsigned char> packed_;
    uint64_t read_bytes_ = 0;  // of the file
    bool at_end_ = false;      // of the file
    bool in_member_ = false;
    uint64_t member_count_ = 0;
};

}  // namespace weir::data
