// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Contact: what a process needs to reach a running job: the manager's address and the job's
/// secret. A file has it, which only its owner may read.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/result.h"
#include "transport/net/secret.h"

namespace weir {

struct Contact {
    std::string manager_address = {};  ///< of several, all; as lib/job has written it
    transport::Secret secret = {};

    [[nodiscard]] std::string text() const;
    /// Errors:  kParse, without the text, which may have the secret
    [[nodiscard]] static Result<Contact> parse(std::string_view text);
    friend bool operator==(const Contact&, const Contact&) = default;
};

/// Errors:  kNotFound; kRefused if others than the owner have access to it; kParse, kIo. The text
///          names the file and says what to do
[[nodiscard]] Result<Contact> read_contact_file(const std::string& path);

/// A contact file, which is removed with the object. All ranks of a job may write the same one,
/// as a launcher gives them all the same flags; readers see one of theirs, whole. It is then rank
/// 0's, which stays as long as the job: another rank, which may leave before, leaves it alone.
class ContactFile {
public:
    enum class Writer { kRank0, kOtherRank };

    ContactFile() = default;
    /// Of another rank, nothing is written if the job's contact is there already.
    /// Errors:  those of check_place(); kIo naming the file
    [[nodiscard]] static Result<ContactFile> write(const std::string& path, const Contact& contact,
                                                   Writer writer);

    /// Whether write() may put its file there: nothing is, or what a killed job has left behind.
    /// Errors:  kAlreadyExists, or kIo if its folder cannot be written, naming the file
    [[nodiscard]] static Status check_place(const std::string& path);

    ~ContactFile() { remove(); }

    ContactFile(ContactFile&& other) noexcept
        : path_(std::exchange(other.path_, {})), inode_(other.inode_) {}

    ContactFile& operator=(ContactFile&& other) noexcept;
    ContactFile(const ContactFile&) = delete;
    ContactFile& operator=(const ContactFile&) = delete;

private:
    ContactFile(std::string path, uint64_t inode) : path_(std::move(path)), inode_(inode) {}

    void remove() noexcept;

    std::string path_;  // empty: there is none
    uint64_t inode_ = 0;
};

}  // namespace weir
