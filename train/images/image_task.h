// Image classification as the trainer sees it: any image model (models/image_model.h) over labelled
// images. Validation is the loss, top-1 and top-5 accuracy.
#pragma once
#include <memory>
#include <span>

#include "data/parallel_prefetch.h"
#include "models/image_model.h"
#include "train/images/image_data.h"
#include "train/loop/batched_task.h"

namespace pal {

struct ImageEvaluation {
  double loss = 0;            // mean nats an image
  double top1 = 0, top5 = 0;  // percent
  int64_t images = 0, skipped = 0;
};

// Threads that read and augment ahead: where data.workers does not say, one for each of so many
// processors, of all that this process may use.
int workers_of(const ImageConfig& config);
int workers_of(const ImageConfig& config, int processors);

class ImageTask : public BatchedTask<ImageBatch, ImageData> {
 public:
  explicit ImageTask(const Config& config, const std::filesystem::path& model_dir = {});

  // One bucket, whose lengths are an image's height and width.
  int bucket_count() const override { return 1; }
  std::pair<int64_t, int64_t> bucket_lengths(int bucket) const override;
  Recorded record_lengths(Builder& builder, std::pair<int64_t, int64_t> lengths, Val scalars,
                          bool training) const override;
  std::unique_ptr<Task> variant(const Config& config) const override;
  const char* unit() const override { return model_.frames > 0 ? "films" : "images"; }
  const char* loss_unit() const override { return model_.frames > 0 ? "film" : "image"; }
  BatchInfo fill_full(Executable& program, std::pair<int64_t, int64_t> lengths) const override;
  // Metrics "top1" and "top5".
  Validation validate(ProgramSet& programs, const std::string& part, const Dealt& dealt) override;
  void add_programs(ProgramSet& programs, const std::string&) override {
    inference(programs, batch_);
  }

  int64_t batch() const { return batch_; }
  // The inference program for so many images: input "images", output "logits" (B, classes).
  Executable& inference(ProgramSet& programs, int64_t batch) const;
  // Gives a set that has no training step the model's weights, by a program that is small.
  void declare_weights(ProgramSet& programs) const { inference(programs, 1); }

 protected:
  void fill_batch(Executable& program, const ImageBatch& batch) const override;

 private:
  ImageTask(const Config& config, std::shared_ptr<ImageData> data);
  void start_batches() override;
  BatchInfo take(ImageBatch& batch) override;

  int64_t batch_, batch_parts_;
  ImageModel model_;
  ImageLossOptions loss_;
  int workers_;
  std::unique_ptr<TrainingImages> training_;                // the prefetcher's
  std::unique_ptr<ParallelPrefetch<ImageBatch>> prefetch_;  // after what it uses: it goes first
};

// A model and the programs that hold its weights.
struct ImageMember {
  const ImageTask* task;
  ProgramSet* programs;
};
// Mean probabilities of the members, (B, classes) in one row, for the images of a batch.
std::vector<double> mean_probabilities(std::span<const ImageMember> members,
                                       const ImageBatch& batch);
// Of the first member's data; by mean probabilities.
ImageEvaluation evaluate_images(std::span<const ImageMember> members, const std::string& part,
                                const Dealt& dealt = {});

}  // namespace pal
