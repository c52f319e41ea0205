// The sections "train", "memory" and "device" of every configuration.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autograd/optimizer.h"
#include "memory/dynamic/options.h"
#include "memory/recompute/recompute.h"
#include "memory/schedule/schedule.h"
#include "memory/swap/options.h"
#include "models/rule.h"
#include "train/config/option.h"

namespace pal {

// What ranks divide among themselves (ZeRO, Rajbhandari et al. 2020, stages 1 to 3).
enum class Shard : uint8_t { none, optimizer, gradients, weights };
constexpr auto names(Shard) { return std::array{"none", "optimizer", "gradients", "weights"}; }

// Of which micro-batches' rows batch norm takes its statistics, where there are several ranks.
enum class NormBatch : uint8_t { local, sync };
constexpr auto names(NormBatch) { return std::array{"local", "sync"}; }

struct TrainSection : Section {
  Option<std::optional<int64_t>> steps =
      option("steps", {}, "end after this many optimizer updates (or --steps)",
             {.min = 1, .effect = Effect::none});
  Option<std::optional<int64_t>> max_epochs =
      option("max_epochs", {}, "end after this many passes over the training data",
             {.min = 1, .effect = Effect::none});
  Option<int64_t> batch_size = option("batch_size", 128, "sentences (samples) in a micro-batch",
                                      {.min = 1, .max = 1'000'000});
  Option<std::optional<int64_t>> batch_words =
      option("batch_words", {},
             "instead of batch_size: every bucket's batch is as many sentences as fit this many "
             "words of its longer padded side (a multiple of 8 when at least 8); null: off",
             {.min = 1, .max = 10'000'000});
  Option<std::optional<int64_t>> accumulate =
      option("accumulate", {},
             "micro-batches summed in one update, of all ranks together, which divide them evenly; "
             "null: one a rank",
             {.min = 1, .max = 10'000});
  Option<std::optional<std::string>> reduction = option(
      "reduction", {},
      "how gradients of micro-batches become one sum. ordered: along a fixed binary tree, so that "
      "results do not depend on the number of ranks; library: one after the other, and over ranks "
      "as MPI or NCCL likes; null: ordered with several ranks, else library",
      {.choices = {"ordered", "library"}});
  Option<Shard> shard = option(
      "shard", Shard::none,
      "of several ranks: what each has its piece of. optimizer: the optimizer's state and averages "
      "of weights; gradients: their sums too, also those of micro-batches with reduction: library; "
      "weights: these too, gathered for each use",
      {.effect = Effect::none});
  Option<std::string> bucket = option(
      "bucket", "auto",
      "of several ranks: gradients that travel together, and weights with shard: weights, as "
      "bytes (4MiB); auto: of 64 KiB to 64 MiB what is predicted to be fastest within the "
      "budget, and 25 MiB with train.link: none",
      {.effect = Effect::none});
  Option<std::string> exchange = option("exchange", "f32",
                                        "of several ranks: what gradients and their sums travel "
                                        "as. bf16: in half the bytes, rounded, "
                                        "so that results depend on the number of ranks",
                                        {.choices = {"f32", "bf16"}});
  Option<std::string> link = option(
      "link", "auto",
      "of several ranks: what joins them, for arranging exchanges beside the computation. A name "
      "in configs/links or a file (two with a comma: inside a machine, and between machines); "
      "auto: "
      "measured before the first step; none: exchanges wait among the computation",
      {.effect = Effect::none});
  Option<NormBatch> batch_norm = option(
      "batch_norm", NormBatch::local,
      "of several ranks: what batch norm takes its statistics of. local: every micro-batch's own, "
      "and running statistics take all in order; sync: the micro-batches that all ranks run at one "
      "time, so that results depend on the number of ranks");
  Option<double> rank_timeout =
      option("rank_timeout", 300.0,
             "of several ranks: seconds after which one that does not answer ends the run",
             {.min = 1, .max = 1e6, .effect = Effect::none});
  Option<bool> overlap_micro_batches = option(
      "overlap_micro_batches", false,
      "of accumulate: run two micro-batches side by side, the forward pass of one beside the "
      "backward pass of the other, with the same results; one behind the other where they do "
      "not fit memory.budget together",
      {.effect = Effect::none});
  Option<int64_t> batch_parts =
      option("batch_parts", 1,
             "run the nodes of the largest feature maps on so many parts of the batch, one after "
             "the other (as many as divide it): fewer bytes, and sums in another order. What looks "
             "at the batch as a whole (batch norm) is not split",
             {.min = 1, .max = 65536, .recordings = {"1", "4", "16"}});
  Option<OptimizerSpec::Kind> optimizer =
      option("optimizer", OptimizerSpec::Kind::adam, "the update rule");
  Option<double> lr = option("lr", 3e-4, "learning rate", {.min = 0, .max = 1000});
  Option<int64_t> warmup_steps =
      option("warmup_steps", 0, "updates over which the learning rate first rises linearly to lr",
             {.min = 0});
  Option<std::string> schedule = option(
      "schedule", "constant",
      "the learning rate after warm-up: constant, inverse_sqrt (lr times sqrt(warmup_steps/step)), "
      "step (times lr_factor every lr_decay_every updates), cosine (down to lr_min at "
      "schedule_steps), plateau (times lr_factor after lr_patience validations without a new best)",
      {.choices = {"constant", "inverse_sqrt", "step", "cosine", "plateau"}});
  Option<double> lr_min =
      option("lr_min", 0.0, "no schedule goes below it, warm-up apart", {.min = 0, .max = 1000});
  Option<double> lr_factor =
      option("lr_factor", 0.5, "of step and plateau: what lr is multiplied by",
             {.min = 0, .max = 1, .above_min = true, .below_max = true});
  Option<std::optional<int64_t>> lr_decay_every =
      option("lr_decay_every", {}, "of step: updates between two decays", {.min = 1});
  Option<std::optional<int64_t>> lr_decay_start =
      option("lr_decay_start", {}, "of step: updates before the first decay; null: lr_decay_every",
             {.min = 0});
  Option<std::optional<int64_t>> lr_decay_times = option(
      "lr_decay_times", {}, "of step and plateau: decays at most; null: no limit", {.min = 1});
  Option<std::optional<int64_t>> schedule_steps =
      option("schedule_steps", {},
             "of cosine: the update, warm-up included, at which lr_min is reached", {.min = 1});
  Option<int64_t> lr_patience = option(
      "lr_patience", 3, "of plateau: validations without a new best before a decay", {.min = 1});
  Option<std::string> precision =
      option("precision", "f32",
             "of training steps. tf32 (cuda): products round their f32 operands to 11 bits for "
             "tensor cores. bf16: feature maps and copies of the weights take 16 bits; weights, "
             "their gradients, sums and losses stay f32",
             {.choices = {"f32", "tf32", "bf16"}});
  Option<double> momentum =
      option("momentum", 0.9, "of momentum and nesterov", {.min = 0, .max = 1, .below_max = true});
  Option<double> beta1 = option("beta1", 0.9, "Adam's decay of the gradient's mean",
                                {.min = 0, .max = 1, .below_max = true});
  Option<double> beta2 = option("beta2", 0.999, "Adam's decay of the gradient's square",
                                {.min = 0, .max = 1, .below_max = true});
  Option<double> eps = option("eps", 1e-8, "Adam's term against division by zero",
                              {.min = 0, .max = 1, .above_min = true});
  Option<double> weight_decay =
      option("weight_decay", 0.0, "L2 penalty added to the gradient; adamw: decoupled from it",
             {.min = 0, .max = 1000});
  Option<bool> decay_vectors =
      option("decay_vectors", true, "weight_decay also acts on biases and on the gains of norms");
  Option<std::optional<double>> clip_value =
      option("clip_value", {}, "clip each gradient element into ±this; null: off",
             {.min = 0, .above_min = true});
  Option<std::optional<double>> clip_norm =
      option("clip_norm", {}, "scale all gradients to this L2 norm at most; null: off",
             {.min = 0, .above_min = true});
  Option<double> label_smoothing = option(
      "label_smoothing", 0.0, "probability mass spread evenly over the vocabulary (the classes)",
      {.min = 0, .max = 1, .below_max = true});
  Option<std::optional<double>> ema =
      option("ema", {},
             "decay of an exponential moving average of the weights, e.g. 0.999, which validation "
             "and best.safetensors use (corrected for its start); null: off",
             {.min = 0, .max = 1, .above_min = true, .below_max = true});
  Option<std::optional<std::string>> init_from =
      option("init_from", {},
             "initial weights: a .safetensors file, or the folder of a run (its best, else its "
             "last), of the same model and vocabularies; null: drawn");
  Option<int64_t> seed = option("seed", 1, "of initial weights, shuffling and dropout", {.min = 0});
  Option<int64_t> log_every =
      option("log_every", 10, "updates between two step rows", {.min = 1, .effect = Effect::none});
  Option<std::optional<int64_t>> valid_every =
      option("valid_every", {}, "updates between two validations; null: once an epoch",
             {.min = 1, .effect = Effect::none});
  Option<std::optional<int64_t>> save_every =
      option("save_every", {}, "updates between two checkpoints; null: at each validation",
             {.min = 1, .effect = Effect::none});
  Option<int64_t> keep_last =
      option("keep_last", 0, "last checkpoints that are also kept as step-N.safetensors",
             {.min = 0, .max = 100'000, .effect = Effect::none});
  Option<std::optional<int64_t>> average_last = option(
      "average_last", {},
      "at the end, also try the mean of the last N checkpoints (kept as keep_last keeps them): "
      "saved as average.safetensors, and as best.safetensors where it is the best; null: off",
      {.min = 1, .max = 100'000, .effect = Effect::none});
  Option<std::optional<int64_t>> patience = option(
      "patience", {}, "end after this many validations in a row without a new best; null: do not",
      {.min = 1, .effect = Effect::none});
};
using TrainConfig = Copied<TrainSection>;

// The precision formats (names(Dpr)), each behind `prefix`; and all values of memory.encode.
std::vector<std::string> dpr_names(const std::string& prefix);
std::vector<std::string> encode_choices();

struct MemorySection : Section {
  Option<std::optional<Size>> budget =
      option("budget", {}, "e.g. 11GiB: the whole footprint, weights included",
             {.effect = Effect::none_if_exact});
  Option<bool> inplace = option("inplace", true, "let an output take a dead operand's bytes",
                                {.effect = Effect::none_if_exact});
  Option<Schedule> schedule = option("schedule", Schedule::lifetime, "the order of the nodes",
                                     {.effect = Effect::none_if_exact});
  Option<Recompute> recompute =
      option("recompute", Recompute::none, "rerun forward nodes to keep less",
             {.effect = Effect::none_if_exact});
  Option<double> recompute_overhead = option(
      "recompute_overhead", RecomputeOptions{}.overhead,
      "of echo: at most this part of a step's time, as predicted for the paper's card; counts as "
      "the next lower of 1, 2, 3, 5, 7, 9, 12, 15, 20, 30, 50, 100 %",
      {.min = 0, .max = 1000, .effect = Effect::none_if_exact});
  Option<bool> fuse_recompute =
      option("fuse_recompute", true, "fold a recomputed chain into its one reader's kernel",
             {.effect = Effect::none_if_exact});
  Option<bool> fuse_epilogues =
      option("fuse_epilogues", true, "fold relu, its gradient and sums into the node before them",
             {.effect = Effect::none_if_exact});
  Option<std::vector<std::string>> encode =
      option("encode", {}, "keep feature maps encoded; the dpr_ forms are lossy",
             {.choices = encode_choices(), .effect = Effect::none, .lossy = dpr_names("dpr_")});
  Option<TextMap> dpr_layers = option(
      "dpr_layers", {}, "formats of scopes, in place of the one in encode: {encoder/rnn/0: fp8}",
      {.choices = dpr_names(""), .lossy = dpr_names("")});
  Option<int64_t> ssdc_observe =
      option("ssdc_observe", 20,
             "of ssdc: runs of a step that count its nonzeros before its maps are kept sparse",
             {.min = 1, .max = 1'000'000, .effect = Effect::none});
  Option<double> ssdc_margin = option(
      "ssdc_margin", 1.25, "of ssdc: room for so many times the most nonzeros that were counted",
      {.min = 1, .max = 1000, .effect = Effect::none});
  Option<Swap> swap = option("swap", Swap::none, "keep feature maps in the host's memory",
                             {.effect = Effect::none_if_exact});
  Option<VdnnInputs> vdnn =
      option("vdnn", VdnnInputs::conv, "of swap: vdnn: inputs of compute-heavy layers, or of all",
             {.effect = Effect::none_if_exact});
  Option<std::optional<Size>> host_budget =
      option("host_budget", {}, "bytes of the host's memory for copies; null: 80 % of what is free",
             {.effect = Effect::none_if_exact});
  Option<Manager> manager =
      option("manager", Manager::fixed,
             "delta, dtr: keep the step within budget; decided once, before training, node by node",
             {.effect = Effect::none});
  Option<Filter> filter =
      option("filter", Filter::base, "of delta: what leaves first", {.effect = Effect::none});
  Option<double> start =
      option("start", DynamicOptions{}.start,
             "of delta: part of the bytes that come and go at which it begins to release",
             {.min = 0, .max = 1, .effect = Effect::none});
  Option<int64_t> prefetch =
      option("prefetch", DynamicOptions{}.prefetch, "of delta: reloads under way at most",
             {.min = 0, .max = 1'000'000, .effect = Effect::none});
  Option<bool> release_in_backward =
      option("release_in_backward", true,
             "of delta: release early in the backward phase too, not only where memory is short",
             {.effect = Effect::none});
  Option<DtrHeuristic> dtr =
      option("dtr", DtrHeuristic::full, "of dtr: what leaves first", {.effect = Effect::none});
  Option<Dealloc> dealloc =
      option("dealloc", Dealloc::eager, "of dtr: what becomes of what nobody reads any more",
             {.effect = Effect::none});
  Option<std::optional<bool>> automatic =
      option("auto", {},
             "of a budget: run the fastest plan known that keeps to it, by recomputation, "
             "encodings and swapping; null: where recompute, encode, swap and manager are "
             "untouched",
             {.effect = Effect::none_if_exact});
  Option<std::vector<std::string>> allow =
      option("allow", {},
             "of auto: what may change results. reordered: other recordings of the model, whose "
             "sums go in another order; lossy: rounded feature maps",
             {.choices = {"reordered", "lossy"}, .lossy = {"lossy"}});
  Option<int64_t> profile_steps =
      option("profile_steps", 5,
             "of auto: steps whose nodes are timed before the plan is made anew once; 0: none",
             {.min = 0, .max = 1000, .effect = Effect::none});
};
using MemoryConfig = Copied<MemorySection>;

struct DeviceSection : Section {
  Option<std::string> type = option("type", "auto", "auto: cuda where there is one, else cpu",
                                    {.choices = {"cpu", "cuda", "auto"}});
  Option<std::optional<int64_t>> threads =
      option("threads", {}, "CPU threads; null: one per core", {.min = 1, .max = 1024});
  Option<bool> graphs =
      option("graphs", true, "of cuda: record a step once and replay it", {.effect = Effect::none});
  Option<bool> branches =
      option("branches", true,
             "of cuda: branches of a step that do not depend on each other, such as the two "
             "directions of a recurrent layer, run side by side on two queues where that is "
             "predicted to be faster and fits; not with several ranks, memory.swap, a manager, or "
             "in a shared pool",
             {.effect = Effect::none});
  Option<bool> cudnn = option("cudnn", true,
                              "of cuda: convolutions and whole recurrent layers go to cuDNN where "
                              "it is found; false: as windows, cells and cuBLASLt's products");
  Option<bool> timed_products = option(
      "timed_products", true,
      "of cuda: of the algorithms that cuBLASLt has for a product the one that is the fastest "
      "when they are timed, once for this machine, and kept with the run, and so of the ways "
      "to a convolution's weight gradient; false: the one that it guesses, and a rule's way");
};
using DeviceConfig = Copied<DeviceSection>;

// Whether the plan is chosen from the budget: memory.auto, or what null stands for.
bool chooses_plan(const MemoryConfig& memory);
bool allows(const MemoryConfig& memory, const char* what);  // a value of memory.allow

Rules<TrainConfig> train_rules();
Rules<MemoryConfig> memory_rules();

}  // namespace pal
