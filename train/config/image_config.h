// The section "data" of image classifiers.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/rule.h"
#include "train/config/option.h"

namespace pal {

// Labelled images, folders of JPEG and PNG files, CIFAR's binaries, IDX files; or films.
struct ImageSection : Section {
  Option<std::string> root = option("root", ".",
                                    "folder of the files; a relative one is looked for from the "
                                    "working directory, then beside the program's own files");
  Option<std::string> format =
      option("format", "folder",
             "folder (of a folder for each class, with JPEG and PNG files; with data.frames a "
             "folder of them for each film), cifar10, cifar100 (binaries) or idx (MNIST's); the "
             "last three also as .gz",
             {.choices = {"folder", "cifar10", "cifar100", "idx"}});
  Option<std::vector<std::string>> train =
      option("train", std::vector<std::string>{"train"},
             "under root: a folder, or files (of idx those of images; 'labels-idx1' in place of "
             "'images-idx3' names their labels)");
  Option<std::vector<std::string>> valid =
      option("valid", {}, "likewise for validation; []: valid_count training images, else test");
  Option<std::vector<std::string>> test = option("test", {}, "likewise; []: as for validation");
  Option<int64_t> valid_count =
      option("valid_count", 0, "of the training images, so many are kept for validation instead",
             {.min = 0, .max = 100'000'000});
  Option<std::optional<int64_t>> classes =
      option("classes", {},
             "how many there are: with it a step can be planned without the data; null: as found",
             {.min = 2, .max = 10'000'000});
  Option<int64_t> channels = option("channels", 3, "3: colour, 1: grey", {.min = 1, .max = 3});
  Option<int64_t> image_size =
      option("image_size", 224, "height and width that the model sees", {.min = 1, .max = 4096});
  Option<std::optional<int64_t>> frames =
      option("frames", {},
             "of a film, so many are seen together: from a random one on in training, those in the "
             "middle else; null: single images",
             {.min = 1, .max = 4096});
  Option<int64_t> frame_step =
      option("frame_step", 1, "from a frame that is seen to the next; 2: every other",
             {.min = 1, .max = 4096});
  Option<std::optional<int64_t>> resize = option("resize", {},
                                                 "for validation the shorter side is resized to "
                                                 "this, then the centre cut out; null: image_size",
                                                 {.min = 1, .max = 8192});
  Option<std::string> crop =
      option("crop", "random_resized",
             "of training images: random_resized (a random part, resized), pad (a random window of "
             "the image with a black frame of crop_pad pixels) or center (as for validation)",
             {.choices = {"random_resized", "pad", "center"}});
  Option<int64_t> crop_pad = option("crop_pad", 4, "of crop pad", {.min = 0, .max = 1024});
  Option<double> crop_scale =
      option("crop_scale", 0.08, "of crop random_resized: the least part of the area",
             {.min = 0, .max = 1, .above_min = true});
  Option<bool> flip = option("flip", true, "mirror every other training image, left to right");
  Option<double> brightness = option("brightness", 0.0,
                                     "times a random factor from 1 - this to 1 + this; likewise "
                                     "contrast and saturation, the three in a random order",
                                     {.min = 0, .max = 10});
  Option<double> contrast =
      option("contrast", 0.0, "distance from the image's mean grey", {.min = 0, .max = 10});
  Option<double> saturation =
      option("saturation", 0.0, "distance from each pixel's grey", {.min = 0, .max = 10});
  Option<double> mixup = option(
      "mixup", 0.0, "alpha of mixup: images and labels of a batch are mixed in pairs; 0: off",
      {.min = 0, .max = 1});
  Option<std::vector<double>> mean = option("mean", std::vector<double>{0.485, 0.456, 0.406},
                                            "subtracted, by channel, of values from 0 to 1");
  Option<std::vector<double>> std = option("std", std::vector<double>{0.229, 0.224, 0.225},
                                           "then divided by", {.min = 0, .above_min = true});
  Option<std::string> on_error = option("on_error", "fail",
                                        "an image that cannot be read, a class without images: "
                                        "fail (say which, and stop) or skip (count and warn)",
                                        {.choices = {"fail", "skip"}});
  Option<int64_t> min_side =
      option("min_side", 2, "an image with a shorter side of fewer pixels cannot be used",
             {.min = 1, .max = 4096});
  Option<std::optional<int64_t>> workers =
      option("workers", {},
             "threads that read and augment ahead; null: one a processor core,"
             " divided among the jobs of pal corun",
             {.min = 1, .max = 256, .effect = Effect::none});
  Option<bool> synthetic = option(
      "synthetic", false, "made-up images (1,024 to train on, 256 to test) instead of the files");
};
using ImageConfig = Copied<ImageSection>;

Rules<ImageConfig> image_rules();

}  // namespace pal
