// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/watched_disk.h"

namespace weir::checkpoint {
namespace {

std::string_view folder_of(std::string_view path) {
    return path.substr(0, path.rfind('/'));
}

/// Something that the disk does, from its begin to its end.
class Step {
public:
    Step(DiskMoves& moves, std::string_view folder) : moves_(moves) { moves_.begin(folder); }

    ~Step() { moves_.note(); }

    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

private:
    DiskMoves& moves_;
};

class WatchedFile final : public NewFile {
public:
    WatchedFile(std::unique_ptr<NewFile> file, std::string_view folder,
                std::shared_ptr<DiskMoves> moves)
        : file_(std::move(file)), folder_(folder), moves_(std::move(moves)) {}

    WatchedFile(const WatchedFile&) = delete;
    WatchedFile& operator=(const WatchedFile&) = delete;

    ~WatchedFile() override {
        const Step step(*moves_, folder_);
        file_.reset();
    }

    [[nodiscard]] Status write(std::span<const std::byte> bytes) override {
        const Step step(*moves_, folder_);
        return file_->write(bytes);
    }

    [[nodiscard]] Status sync() override {
        const Step step(*moves_, folder_);
        return file_->sync();
    }

private:
    std::unique_ptr<NewFile> file_;
    std::string folder_;
    std::shared_ptr<DiskMoves> moves_;
};

}  // namespace

Result<std::unique_ptr<NewFile>> WatchedDisk::create(const std::string& path) {
    const Step step(*moves_, folder_of(path));
    WEIR_ASSIGN(std::unique_ptr<NewFile> file, disk_->create(path));
    return std::unique_ptr<NewFile>(
        std::make_unique<WatchedFile>(std::move(file), folder_of(path), moves_));
}

Result<std::vector<std::byte>> WatchedDisk::read(const std::string& path, uint64_t bytes_max) {
    const Step step(*moves_, folder_of(path));
    return disk_->read(path, bytes_max);
}

Result<uint64_t> WatchedDisk::size(const std::string& path) {
    const Step step(*moves_, folder_of(path));
    return disk_->size(path);
}

Result<std::vector<std::string>> WatchedDisk::list(const std::string& folder) {
    const Step step(*moves_, folder);
    return disk_->list(folder);
}

Status WatchedDisk::rename(const std::string& from, const std::string& to) {
    const Step step(*moves_, folder_of(to));
    return disk_->rename(from, to);
}

Status WatchedDisk::remove(const std::string& path) {
    const Step step(*moves_, folder_of(path));
    return disk_->remove(path);
}

Status WatchedDisk::sync_folder(const std::string& folder) {
    const Step step(*moves_, folder);
    return disk_->sync_folder(folder);
}

}  // namespace weir::checkpoint
