#include "analysis/reports/keeper_hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace cuheap::analysis {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::uint32_t> Guess(const std::string& text, std::uint32_t line, bool values) {
  SourceFile source;
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);) source.lines.push_back(one);
  return GuessKeeper(source, line, values).lines;
}

TEST(KeeperHintTest, ARunningSumThatNamesTheLoss) {
  const char* const text =
      "def validate(model, loader):\n"
      "    total = 0\n"
      "    for step, (x, y) in enumerate(loader):\n"
      "        loss = criterion(model(x), y)\n"
      "        count += 1\n"
      "        seen.append(y)\n"
      "        total += loss  # the graph stays\n"
      "    return total\n";
  EXPECT_THAT(Guess(text, 4, false), ElementsAre(7));
}

TEST(KeeperHintTest, TheLineItselfMayKeep) {
  EXPECT_THAT(Guess("def f():\n    total += criterion(model(x), y)\n", 2, false), ElementsAre(2));
}

TEST(KeeperHintTest, ALineThatStoresIsTheKeeperWhateverElseStores) {
  const char* const text =
      "def hook(module, inputs, output):\n"
      "    kept.setdefault(name, []).append(output.detach())\n"
      "def batch(i):\n"
      "    cache[i] = (torch.randn(256, 512).cuda(), torch.randint(0, 10, (256,)).cuda())\n"
      "    seen.append(cache[i])\n";
  EXPECT_THAT(Guess(text, 4, true), ElementsAre(4));
  EXPECT_THAT(Guess("x = f()\ncache[0] = int(x)\n", 1, true), IsEmpty());  // a word, unlike randint()
}

TEST(KeeperHintTest, ActivationsAppendedInForward) {
  const char* const text =
      "class Net(nn.Module):\n"
      "    def forward(self, x):\n"
      "        hidden = torch.relu(self.first(x))\n"
      "        self.history.append(hidden)\n"
      "        return self.second(hidden)\n"
      "def other():\n"
      "    losses.append(hidden)\n";
  EXPECT_THAT(Guess(text, 3, true), ElementsAre(4));
}

TEST(KeeperHintTest, NumbersKeepNothing) {
  const char* const text =
      "def f():\n"
      "    loss = criterion(model(x), y)\n"
      "    total += loss.item()\n"
      "    losses.append(float(loss))\n"
      "    if total == loss: pass\n"
      "    g(total=loss)\n";
  EXPECT_THAT(Guess(text, 2, true), IsEmpty());
}

TEST(KeeperHintTest, DetachedTensorsKeepNoGraphButThemselves) {
  const char* const text =
      "def f():\n"
      "    out = model(x)\n"
      "    outputs.append(out.detach())\n";
  EXPECT_THAT(Guess(text, 2, false), IsEmpty());
  EXPECT_THAT(Guess(text, 2, true), ElementsAre(3));
}

TEST(KeeperHintTest, AHookIsFoundElsewhereInTheFile) {
  const char* const text =
      "class Net(nn.Module):\n"
      "    def forward(self, x):\n"
      "        return self.second(torch.relu(self.first(x)))\n"
      "\n"
      "def hook(module, inputs, output):\n"
      "    features[len(features)] = output\n";
  EXPECT_THAT(Guess(text, 3, true), IsEmpty());  // len() makes a number of it
  EXPECT_THAT(Guess(std::string(text) + "    kept.append(output)\n", 3, true), ElementsAre(7));
}

TEST(KeeperHintTest, DictionariesAndSumsByName) {
  EXPECT_THAT(Guess("out = model(x)\ncache[step] = out\n", 1, true), ElementsAre(2));
  EXPECT_THAT(Guess("loss = f(x)\ntotal = total + loss\n", 1, false), ElementsAre(2));
  EXPECT_THAT(Guess("loss = f(x)\nother = loss + 1\n", 1, false), IsEmpty());
}

TEST(KeeperHintTest, ALineThatIsNotThereGivesNone) {
  EXPECT_THAT(Guess("a = 1\n", 7, true), IsEmpty());
  EXPECT_THAT(Guess("", 1, true), IsEmpty());
}

TEST(KeeperHintTest, GradientsByTheirName) {
  SourceFile source;
  source.lines = {"loss.backward()", "kept.append([p.grad for p in parameters])", "norm += p.grad.norm().item()",
                  "p.grad = None"};
  EXPECT_THAT(GuessGradientKeeper(source).lines, ElementsAre(2));
}

}  // namespace
}  // namespace cuheap::analysis
