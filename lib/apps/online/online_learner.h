// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// OnlineLearner: learns from one mini-batch after the other, while the weights of the next one are pulled and the
/// gradients of the last one are pushed.

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "lib/apps/loss.h"
#include "lib/apps/online/progressive.h"
#include "lib/data/libsvm_parser.h"
#include "lib/weir.h"

namespace weir::apps {

/// Workers wait for nobody: a push changes the weights when it arrives (eventual consistency). What a mini-batch is
/// predicted and learned with lacks the mini-batch before, which was under way, and what other workers had under way.
///
/// Thread: the client's
class OnlineLearner {
public:
    /// `weights`: of features, with as many values as `function` has scores. `learned`: called when what was taken
    /// with these numbers has taken effect.
    OnlineLearner(Client& client, Table<float> weights, LossFunction function,
                  std::function<void(uint32_t piece, uint64_t place)> learned)
        : client_(client),
          weights_(std::move(weights)),
          function_(function),
          learned_(std::move(learned)) {}

    OnlineLearner(const OnlineLearner&) = delete;
    OnlineLearner& operator=(const OnlineLearner&) = delete;
    /// Waits for what is under way. Behind an error of take() or finish() others say nothing new.
    ~OnlineLearner();

    /// Takes the examples out of `lines`, of which nothing useful is left, and begins to learn from them.
    /// Errors: those of pushes and pulls; kNotFinite if the training diverges
    [[nodiscard]] Status take(data::ParsedLines& lines, uint32_t piece, uint64_t place);

    /// Waits until what was taken is learned.
    /// Errors: as take()
    [[nodiscard]] Status finish();

    /// Of what was learned since they were cleared last.
    [[nodiscard]] ProgressiveSums& sums() noexcept { return sums_; }

private:
    struct Batch {
        data::ParsedLines lines;
        KeyBatch keys;
        std::vector<float> targets;
        std::vector<float> scores;  ///< then their slopes
        Buffer<float> weights;
        Buffer<float> gradients;
        uint32_t piece = 0;
        uint64_t place = 0;
        Task pull, push;  ///< behind what they use
        bool is_under_way = false;
    };

    /// One is pulled, one is computed, one is pushed.
    static constexpr uint64_t kBatches = 3;

    [[nodiscard]] Status make_room(Batch& batch, size_t values);
    [[nodiscard]] Status learn(Batch& batch);
    [[nodiscard]] Status end_push(Batch& batch);
    void predict(Batch& batch) const;
    void add_up_gradients(Batch& batch) const;

    Client& client_;
    Table<float> weights_;
    LossFunction function_;
    std::function<void(uint32_t, uint64_t)> learned_;
    ProgressiveSums sums_;
    uint64_t taken_ = 0;
    uint64_t computed_ = 0;  ///< of these; their pushes may be under way
    std::array<Batch, kBatches> batches_;
};

}  // namespace weir::apps
