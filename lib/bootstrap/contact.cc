// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/contact.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/descriptor.h"
#include "lib/base/log.h"

namespace weir {
namespace {

constexpr std::string_view kMark = "weir-contact ";  // of every version
constexpr std::string_view kFirstLine = "weir-contact 2";
static_assert(kFirstLine.starts_with(kMark));
constexpr std::string_view kManagerWord = "manager ";
constexpr std::string_view kSecretWord = "secret ";
constexpr size_t kFileBytesMax = 4096;

/// The next line of `text`, which is cut off there.
std::string_view take_line(std::string_view& text) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool parse_secret(std::string_view hex, transport::Secret& secret) {
    if (hex.size() != 2 * secret.size()) return false;
    for (size_t i = 0; i < secret.size(); ++i) {
        const int high = hex_digit(hex[2 * i]);
        const int low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        secret[i] = static_cast<std::byte>(high << 4 | low);
    }
    return true;
}

Error io_error(const std::string& path, const char* what) {
    return {Errc::kIo, fmt::format("contact file {}: cannot {}", path, what), errno};
}

/// Whether a contact file of any version is at `path`, whole or not.
bool is_contact_file(const std::string& path) noexcept {
    // non-blocking: opening a FIFO must not hang
    const Descriptor fd(
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY));
    struct stat info = {};
    if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
    std::array<char, kMark.size()> head;
    const ssize_t got = ::read(fd.get(), head.data(), head.size());
    return got == static_cast<ssize_t>(head.size()) && std::ranges::equal(head, kMark);
}

}  // namespace

std::string Contact::text() const {
    std::string text =
        fmt::format("{}\n{}{}\n{}", kFirstLine, kManagerWord, manager_address, kSecretWord);
    for (const std::byte byte : secret)
        text += fmt::format("{:02x}", static_cast<unsigned>(byte));
    return text + "\n";
}

Result<Contact> Contact::parse(std::string_view text) {
    Contact contact;
    if (take_line(text) != kFirstLine) {
        return Error(Errc::kParse,
                     "not the contact of a job of this version of Weir; it is what --contact FILE "
                     "writes when a job starts");
    }
    const std::string_view manager = take_line(text);
    const std::string_view secret = take_line(text);
    const bool is_whole = manager.starts_with(kManagerWord) &&
                          manager.size() > kManagerWord.size() && secret.starts_with(kSecretWord) &&
                          parse_secret(secret.substr(kSecretWord.size()), contact.secret);
    if (!is_whole || !text.empty())
        return Error(Errc::kParse, "the contact of a job is damaged; write it anew");
    contact.manager_address = manager.substr(kManagerWord.size());
    return contact;
}

Result<Contact> read_contact_file(const std::string& path) {
    // non-blocking: opening a FIFO must not hang
    const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) {
        return Error(Errc::kNotFound,
                     fmt::format("contact file {}: cannot open it; a job that was started with "
                                 "--contact {} writes it, and removes it at its end",
                                 path, path),
                     errno);
    }
    struct stat info = {};
    if (::fstat(fd.get(), &info) != 0) return io_error(path, "read its mode");
    if (!S_ISREG(info.st_mode)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("contact file {}: not a regular file", path));
    }
    std::string text(kFileBytesMax, '\0');
    const ssize_t got = ::read(fd.get(), text.data(), text.size());
    if (got < 0) return io_error(path, "read it");
    text.resize(static_cast<size_t>(got));
    Result<Contact> contact = Contact::parse(text);
    if (!contact) {
        return Error(contact.code(),
                     fmt::format("contact file {}: {}", path, contact.error().text()));
    }
    if ((info.st_mode & 077) != 0) {
        return Error(Errc::kRefused,
                     fmt::format("contact file {}: mode {:04o} gives other users the job's "
                                 "secret; run: chmod 0600 {}",
                                 path, info.st_mode & 07777, path));
    }
    return contact;
}

Status ContactFile::check_place(const std::string& path) {
    if (path.empty()) return {};
    const std::string folder = std::filesystem::path(path).parent_path().string();
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0)
        return io_error(path, "write it");
    struct stat info = {};
    if (::lstat(path.c_str(), &info) != 0 || is_contact_file(path)) return {};
    return Error(
        Errc::kAlreadyExists,
        fmt::format("contact file {}: it is there already, and is not a contact file of a "
                    "job, so it is not replaced; give --contact another name, or remove it",
                    path));
}

/// Readers find no file or a whole one: it is written beside its place and moved there. link() does
/// not replace a file that rank 0 has just written.
Result<ContactFile> ContactFile::write(const std::string& path, const Contact& contact,
                                       Writer writer) {
    WEIR_TRY(check_place(path));
    const std::string beside = fmt::format("{}.{}", path, ::getpid());
    (void)::unlink(beside.c_str());
    const Descriptor fd(
        ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return io_error(path, "write it");
    const std::string text = contact.text();
    struct stat info = {};
    bool is_written =
        ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
        ::fstat(fd.get(), &info) == 0;
    if (is_written && writer == Writer::kOtherRank) {
        const bool is_linked = ::link(beside.c_str(), path.c_str()) == 0;
        const Result<Contact> found = is_linked ? contact : read_contact_file(path);
        const bool is_there = !is_linked && found && *found == contact;
        if (is_linked || is_there) (void)::unlink(beside.c_str());
        if (is_there) return ContactFile();
        if (is_linked) return ContactFile(path, info.st_ino);
    }
    if (const Result<Contact> other = read_contact_file(path); other && *other != contact) {
        log(LogLevel::kWarning,
            "contact file {}: it named another job, whose manager is at {}; from now on it names "
            "this one",
            path, other->manager_address);
    }
    is_written = is_written && ::rename(beside.c_str(), path.c_str()) == 0;
    if (!is_written) {
        const Error error = io_error(path, "write it");
        (void)::unlink(beside.c_str());
        return error;
    }
    return ContactFile(path, info.st_ino);
}

ContactFile& ContactFile::operator=(ContactFile&& other) noexcept {
    if (this != &other) {
        remove();
        path_ = std::exchange(other.path_, {});
        inode_ = other.inode_;
    }
    return *this;
}

void ContactFile::remove() noexcept {
    if (path_.empty()) return;
    struct stat info = {};
    const bool is_ours = ::lstat(path_.c_str(), &info) == 0 && info.st_ino == inode_;
    // Another file may have got the inode of ours, or ours another's text.
    if (is_ours && is_contact_file(path_)) (void)::unlink(path_.c_str());
    path_.clear();
}

}  // namespace weir
