// What cuDNN is told of a convolution: extents, strides and windows by hand, and which paddings and
// sizes it has no words for.
#include "ops/libraries/cudnn_shape.h"

#include <gtest/gtest.h>

namespace pal::test {
namespace {

using Extents = CudnnShape::Extents;
using Window = CudnnShape::Window;

ConvAxis axis(int64_t in, int64_t kernel, int64_t stride = 1, int64_t before = 0, int64_t after = 0,
              int64_t dilation = 1) {
  const int64_t out = (in + before + after - dilation * (kernel - 1) - 1) / stride + 1;
  return {in, kernel, out, stride, before, after, dilation};
}

ConvShape image(ConvAxis rows, ConvAxis columns, int64_t n = 2, int64_t c = 6, int64_t o = 9,
                int64_t groups = 1) {
  return {.axes = 2, .axis = {rows, columns}, .n = n, .c = c, .o = o, .groups = groups};
}

TEST(CudnnShape, AnImageByHand) {
  const ConvShape shape = image(axis(7, 3, 2, 1, 1), axis(8, 2, 1, 2, 2, 3), 5, 6, 9, 3);
  const auto s = cudnn_shape(shape);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->rank(), 4);
  EXPECT_EQ(s->x, (Extents{5, 6, 7, 8}));
  EXPECT_EQ(s->x_stride, (Extents{7 * 8 * 6, 1, 8 * 6, 6}));
  EXPECT_EQ(s->y, (Extents{5, 9, 4, 9}));
  EXPECT_EQ(s->y_stride, (Extents{4 * 9 * 9, 1, 9 * 9, 9}));
  EXPECT_EQ(s->w, (Extents{9, 2, 3, 2}));
  EXPECT_EQ(s->pad, (Window{1, 2}));
  EXPECT_EQ(s->stride, (Window{2, 1}));
  EXPECT_EQ(s->dilation, (Window{1, 3}));
  EXPECT_EQ(s->groups, 3);
}

TEST(CudnnShape, AFilmByHand) {
  const ConvShape shape{.axes = 3,
                        .axis = {axis(4, 2), axis(5, 3, 1, 1, 1), axis(6, 3, 2, 1, 1)},
                        .n = 2,
                        .c = 3,
                        .o = 4};
  const auto s = cudnn_shape(shape);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->rank(), 5);
  EXPECT_EQ(s->x, (Extents{2, 3, 4, 5, 6}));
  EXPECT_EQ(s->x_stride, (Extents{4 * 5 * 6 * 3, 1, 5 * 6 * 3, 6 * 3, 3}));
  EXPECT_EQ(s->y, (Extents{2, 4, 3, 5, 3}));
  EXPECT_EQ(s->w, (Extents{4, 3, 2, 3, 3}));
  EXPECT_EQ(s->pad, (Window{0, 1, 1}));
  EXPECT_EQ(s->stride, (Window{1, 1, 2}));
}

// Zeros that no window reaches are no reason to do without.
TEST(CudnnShape, PaddingThatComesToTheSame) {
  const ConvAxis plain = axis(6, 1);
  EXPECT_TRUE(cudnn_shape(image(axis(8, 3, 2, 1, 0), plain)));  // the last row of zeros is unread
  EXPECT_TRUE(cudnn_shape(image(plain, axis(7, 2, 2, 0, 0))));  // so is the last column
  EXPECT_TRUE(cudnn_shape(image(axis(9, 4, 3, 1, 2), plain)));
  EXPECT_FALSE(cudnn_shape(image(axis(8, 3, 2, 0, 1), plain)));  // a window more than without
  EXPECT_FALSE(cudnn_shape(image(axis(8, 3, 1, 1, 0), plain)));  // a window less
  EXPECT_FALSE(cudnn_shape(image(plain, axis(1, 2, 1, 0, 1))));  // no window at all without
}

TEST(CudnnShape, SizesThatAnIntDoesNotHold) {
  const ConvAxis side = axis(1 << 10, 1), last = axis((1 << 10) - 1, 1);
  const int64_t channels = 1 << 11;
  EXPECT_FALSE(cudnn_shape(image(side, side, 1, channels, 1)));
  EXPECT_FALSE(cudnn_shape(image(side, side, 1, 1, channels)));
  EXPECT_FALSE(cudnn_shape(image(axis(1, 1), axis(1, 1), 1, 1 << 16, 1 << 15)));
  EXPECT_TRUE(cudnn_shape(image(side, last, 1, channels, 1)));
}

}  // namespace
}  // namespace pal::test
