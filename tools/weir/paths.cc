// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/paths.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/descriptor.h"
#include "lib/data/output_file.h"

namespace weir::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCopyBytes = 1U << 20;

bool is_same_file(const std::string& a, const std::string& b) {
    std::error_code error;
    if (fs::exists(a, error) && fs::exists(b, error)) {
        return fs::is_regular_file(a, error) && fs::equivalent(a, b, error);
    }
    const auto whole = [](const fs::path& path) {
        std::error_code none;  // if there is no working directory: keep the path as given
        const fs::path from_root = fs::absolute(path, none);
        const fs::path canonical = none ? path : fs::weakly_canonical(from_root, none);
        return none ? path : canonical;
    };
    return whole(a) == whole(b);
}

Status copy_standard_input(int to) {
    std::vector<char> bytes(kCopyBytes);
    while (true) {
        const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Error(Errc::kIo, "standard input: cannot be read", errno);
        if (got == 0) return {};
        for (ssize_t done = 0; done < got;) {
            const ssize_t wrote = ::write(to, bytes.data() + done, static_cast<size_t>(got - done));
            if (wrote < 0 && errno == EINTR) continue;
            if (wrote < 0)
                return Error(Errc::kIo,
                             "standard input: the copy of it cannot be written; set TMPDIR to a "
                             "folder with more free space",
                             errno);
            done += wrote;
        }
    }
}

}  // namespace

bool is_stdout(const std::string& path) {
    return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

Status check_paths(std::span<const NamedPath> inputs, std::span<const NamedPath> outputs) {
    std::vector<NamedPath> taken;
    std::string_view reader;
    for (const NamedPath& input : inputs) {
        if (input.path.empty()) continue;
        if (input.path == "-") {
            if (!reader.empty())
                return Error(Errc::kInvalidArgument,
                             fmt::format("{} - and {} -: standard input can be read only once; "
                                         "write one of them to a file",
                                         reader, input.flag));
            reader = input.flag;
        } else {
            taken.push_back(input);
        }
    }
    std::string_view writer;
    for (const NamedPath& output : outputs) {
        if (output.path.empty()) continue;
        if (is_stdout(output.path)) {
            if (!writer.empty())
                return Error(
                    Errc::kInvalidArgument,
                    fmt::format(
                        "{} and {} would both go to standard output; name a file for one of them",
                        writer, output.flag));
            writer = output.flag;
            continue;
        }
        for (const NamedPath& other : taken) {
            if (!is_same_file(output.path, other.path)) continue;
            return Error(Errc::kInvalidArgument,
                         fmt::format("{} {} is also the file of {}: name another file", output.flag,
                                     output.path, other.flag));
        }
        taken.push_back(output);
    }
    return {};
}

Status check_outputs(std::span<const NamedPath> outputs) {
    for (const NamedPath& output : outputs) {
        if (!output.path.empty()) WEIR_TRY(data::check_output(output.path));
    }
    return {};
}

Result<std::string> set_output_aside() {
    const int aside = ::dup(STDOUT_FILENO);  // child processes inherit it
    if (aside < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return Error(Errc::kIo, "standard output: is not open; redirect it to a file or a pipe",
                     errno);
    return fmt::format("/dev/fd/{}", aside);
}

Status spool_standard_input() {
    struct stat facts = {};
    if (::fstat(STDIN_FILENO, &facts) != 0)
        return Error(Errc::kIo, "standard input: is not open; redirect a file or a pipe to it",
                     errno);
    if (S_ISREG(facts.st_mode) && ::lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) return {};
    const char* const named = std::getenv("TMPDIR");
    std::string name = named != nullptr && *named != '\0' ? named : "/tmp";
    name += "/weir-input-XXXXXX";
    const Descriptor copy(::mkostemp(name.data(), O_CLOEXEC));
    if (!copy)
        return Error(Errc::kIo,
                     fmt::format("{}: cannot make this file for a copy of standard input; set "
                                 "TMPDIR to a folder that can be written",
                                 name),
                     errno);
    (void)::unlink(name.c_str());
    Status copied = copy_standard_input(copy.get());
    if (copied && ::dup2(copy.get(), STDIN_FILENO) < 0)
        copied = Error(Errc::kIo, "standard input: cannot be replaced by its copy", errno);
    if (copied) (void)::lseek(STDIN_FILENO, 0, SEEK_SET);
    return copied;
}

}  // namespace weir::tools
