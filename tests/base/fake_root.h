// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FakeRoot: a folder that replaces / for a test, with its own /proc and /sys.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace weir::test {

class FakeRoot {
public:
    FakeRoot() {
        std::string name = std::filesystem::temp_directory_path() / "weir_root_XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path_ = name;
    }

    ~FakeRoot() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    FakeRoot(const FakeRoot&) = delete;
    FakeRoot& operator=(const FakeRoot&) = delete;

    void write(std::string_view file, std::string_view text) const {
        const std::filesystem::path path = path_ + std::string(file);
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text << '\n';
    }

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
    std::string path_;
};

}  // namespace weir::test
