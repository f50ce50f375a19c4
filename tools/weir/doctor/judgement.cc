// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/doctor/judgement.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include <fmt/core.h>

namespace weir::tools {
namespace {

using Level = Finding::Level;

constexpr double kSlow = 0.4;  // of the limit

std::string first_line(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder) {
    std::error_code error;
    std::vector<std::filesystem::path> found;
    for (const auto& one : std::filesystem::directory_iterator(folder, error))
        found.push_back(one.path());
    std::ranges::sort(found);
    return found;
}

}  // namespace

std::string_view minor_version(std::string_view version) {
    return version.substr(0, version.rfind('.'));
}

std::vector<Finding> judge_versions(std::string_view here, std::string_view there) {
    if (here == there) return {};
    const std::string says = fmt::format("weir {}, and {} here", there, here);
    const std::string_view minor = minor_version(here);
    if (minor != minor_version(there))
        return {{Level::kProblem, "version there", says,
                 fmt::format("install weir {} at both hosts", minor)}};
    return {{Level::kNote, "version there",
             says + "; they work together, but not in a job of several managers",
             "for WEIR_MANAGERS of 3 or more, install the same version at both hosts"}};
}

std::string rate_text(double bytes_per_s) {
    return bytes_per_s >= 1e9 ? fmt::format("{:.2f} GB/s", bytes_per_s / 1e9)
                              : fmt::format("{:.1f} MB/s", bytes_per_s / 1e6);
}

Finding judge_rate(const std::string& subject, double bytes_per_s, const Limit& limit,
                   const std::string& advice) {
    const bool is_slow = bytes_per_s < kSlow * limit.bytes_per_s;
    return {is_slow ? Level::kNote : Level::kGood, subject,
            fmt::format("{}, {:.2f} of the {} {}", rate_text(bytes_per_s),
                        bytes_per_s / limit.bytes_per_s, rate_text(limit.bytes_per_s), limit.what),
            is_slow ? advice : ""};
}

LinkRate link_rate(const std::filesystem::path& folder, std::string_view device) {
    for (const auto& one : folders_in(folder)) {
        if (!device.empty() && one.filename() != device) continue;
        for (const auto& port : folders_in(one / "ports")) {
            if (first_line(port / "state").find("ACTIVE") == std::string::npos) continue;
            LinkRate rate{.text = first_line(port / "rate")};
            double gigabits = 0;
            const char* const end = rate.text.data() + rate.text.size();
            const auto [stop, error] = std::from_chars(rate.text.data(), end, gigabits);
            if (error == std::errc() && std::string_view(stop, end).starts_with(" Gb/sec"))
                rate.bytes_per_s = gigabits * 1e9 / 8;
            return rate;
        }
    }
    return {};
}

Finding judge_verbs(double bytes_per_s, double stream_bytes_per_s, const LinkRate& link) {
    const std::string advice =
        "the device may be one in software (soft-RoCE), or frames are lost: see "
        "WEIR_RDMA_SERVICE_LEVEL in `weir help variables`";
    if (link.bytes_per_s <= 0)
        return judge_rate("verbs there", bytes_per_s, {stream_bytes_per_s, "of a plain TCP stream"},
                          advice);
    return judge_rate("verbs there", bytes_per_s,
                      {link.bytes_per_s, fmt::format("of the link, {}", link.text)}, advice);
}

}  // namespace weir::tools
