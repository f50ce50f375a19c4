// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Scratch: a folder for one test's files, removed with everything in it at the end.

#include <filesystem>
#include <fstream>
#include <string>

#include <stdlib.h>
#include <zlib.h>

#include "lib/base/check.h"

namespace weir::test {

class Scratch {
public:
    Scratch() {
        std::string name = (std::filesystem::temp_directory_path() / "weir-data-XXXXXX").string();
        WEIR_CHECK(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }

    ~Scratch() { std::filesystem::remove_all(path_); }

    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    [[nodiscard]] std::string path(const std::string& name) const { return path_ / name; }

    /// Writes a file; returns its path.
    [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
        std::ofstream(path(name), std::ios::binary) << text;
        return path(name);
    }

    [[nodiscard]] std::string gzip(const std::string& name, const std::string& text) const {
        gzFile file = gzopen(path(name).c_str(), "wb");
        WEIR_CHECK(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) ==
                   static_cast<int>(text.size()));
        gzclose(file);
        return path(name);
    }

    [[nodiscard]] static std::string content(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }

private:
    std::filesystem::path path_;
};

}  // namespace weir::test
