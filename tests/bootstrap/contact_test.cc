// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/contact.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "lib/bootstrap/secret.h"
#include "tests/log_lines.h"

namespace weir {
namespace {

/// A folder of its own, which is removed.
class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "weir-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }

    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    ~Folder() { std::filesystem::remove_all(path); }

    std::filesystem::path path;
};

using Writer = ContactFile::Writer;

ContactFile write_other(const std::string& path, const Contact& contact) {
    auto file = ContactFile::write(path, contact, Writer::kOtherRank);
    REQUIRE(file.has_value());
    return std::move(*file);
}

}  // namespace

TEST_SUITE("contact") {
    TEST_CASE("a contact file has mode 0600, is read back, and is gone with its writer") {
        const Folder folder;
        const std::string path = folder.path / "contact";
        const Contact contact{"shm:abc,verbs:10.0.0.1:4000", make_secret()};
        {
            const auto file = ContactFile::write(path, contact, Writer::kRank0);
            REQUIRE(file.has_value());
            struct stat info = {};
            REQUIRE(::stat(path.c_str(), &info) == 0);
            CHECK((info.st_mode & 07777) == 0600);
            const auto read = read_contact_file(path);
            REQUIRE(read.has_value());
            CHECK(*read == contact);
            CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
        }
        CHECK(read_contact_file(path).code() == Errc::kNotFound);
    }

    TEST_CASE("a file that named another job is replaced, and the log says so") {
        const Folder folder;
        const std::string path = folder.path / "contact";
        const testing::LogLines lines;
        auto one = ContactFile::write(path, {"first:1", make_secret()}, Writer::kRank0);
        REQUIRE(one.has_value());
        CHECK(lines.count("it named another job") == 0);
        auto two = ContactFile::write(path, {"second:1", make_secret()}, Writer::kRank0);
        REQUIRE(two.has_value());
        CHECK(lines.count("it named another job, whose manager is at first:1") == 1);
        CHECK(read_contact_file(path)->manager_address == "second:1");
        *one = {};
        CHECK(std::filesystem::exists(path));  // the other job's
    }

    TEST_CASE("of the ranks that write the same file, rank 0 removes it, whoever wrote first") {
        const Folder folder;
        const std::string path = folder.path / "contact";
        const Contact contact{"a", make_secret()};
        for (const bool rank0_is_first : {true, false}) {
            auto before = rank0_is_first ? ContactFile() : write_other(path, contact);
            auto rank0 = ContactFile::write(path, contact, Writer::kRank0);
            REQUIRE(rank0.has_value());
            auto after = rank0_is_first ? write_other(path, contact) : ContactFile();
            before = {};
            after = {};
            REQUIRE(read_contact_file(path).has_value());
            CHECK(*read_contact_file(path) == contact);
            CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
            *rank0 = {};
            CHECK_FALSE(std::filesystem::exists(path));
        }
    }

    TEST_CASE(
        "what a killed job left behind is replaced, and of several writers the last removes it") {
        const Folder folder;
        const std::string path = folder.path / "contact";
        auto killed = ContactFile::write(path, {"a", make_secret()}, Writer::kRank0);
        REQUIRE(killed.has_value());
        auto other = write_other(path, {"b", make_secret()});
        CHECK(read_contact_file(path)->manager_address == "b");
        *killed = {};
        CHECK(read_contact_file(path)->manager_address == "b");
        other = {};
        CHECK_FALSE(std::filesystem::exists(path));
    }

    TEST_CASE("what is not a contact file is neither replaced nor removed") {
        const Folder folder;
        const std::string path = folder.path / "contact";
        const auto write_text = [&](std::string_view text) { std::ofstream(path) << text; };
        const Contact contact{"a", make_secret()};
        for (const std::string_view text : {"", "weir", "the user's notes\n"}) {
            write_text(text);
            for (const Writer writer : {Writer::kRank0, Writer::kOtherRank}) {
                const auto refused = ContactFile::write(path, contact, writer);
                CHECK(refused.code() == Errc::kAlreadyExists);
                CHECK(refused.error().message().find(path) != std::string::npos);
            }
            CHECK(std::filesystem::file_size(path) == text.size());
        }
        CHECK(std::filesystem::remove(path));
        std::filesystem::create_symlink("nowhere", path);
        CHECK(ContactFile::check_place(path).code() == Errc::kAlreadyExists);
        CHECK(std::filesystem::remove(path));
        CHECK(ContactFile::check_place(folder.path).code() == Errc::kAlreadyExists);
        CHECK(ContactFile::check_place(folder.path / "nowhere/contact").code() == Errc::kIo);
        CHECK(ContactFile::check_place("new-contact-file").has_value());
        {
            const auto file = ContactFile::write(path, contact, Writer::kRank0);
            REQUIRE(file.has_value());
            write_text("the user's notes\n");  // the inode is the same
        }
        CHECK(std::filesystem::exists(path));
        write_text("weir-contact 0\n");  // another version
        CHECK(ContactFile::write(path, contact, Writer::kRank0).has_value());
        CHECK_FALSE(std::filesystem::exists(path));
    }

    TEST_CASE("a file that others may read, or that is damaged, is refused by name") {
        const Folder folder;
        const std::string path = folder.path / "contact";
        const auto file = ContactFile::write(path, {"a", make_secret()}, Writer::kRank0);
        REQUIRE(file.has_value());
        REQUIRE(::chmod(path.c_str(), 0640) == 0);
        const auto open = read_contact_file(path);
        CHECK(open.code() == Errc::kRefused);
        CHECK(open.error().message().find("chmod 0600 " + path) != std::string::npos);
        const std::string good = Contact{"a", make_secret()}.text();
        for (size_t bytes = 0; bytes + 1 < good.size(); ++bytes) {
            const auto cut = Contact::parse(std::string_view(good).substr(0, bytes));
            CHECK(cut.code() == Errc::kParse);
        }
        CHECK(Contact::parse(good + "x").code() == Errc::kParse);
        std::string other_version = good;
        other_version[good.find('\n') - 1] = '9';
        const auto other = Contact::parse(other_version);
        CHECK(other.code() == Errc::kParse);
        CHECK(other.error().text().find("of this version of Weir") != std::string::npos);
        CHECK(read_contact_file("/").code() == Errc::kInvalidArgument);
        CHECK_FALSE(ContactFile::write("/nowhere/at/all", {"a", make_secret()}, Writer::kRank0)
                        .has_value());
    }
}

}  // namespace weir
