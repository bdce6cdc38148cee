"""Datasets, and the loader that makes batches of them."""

import csv
import gc
import os
import random
import struct
import tempfile
import threading
import time
import unittest

import quern as qn
from quern.data import (CSVDataset, ConcatDataset, DataLoader, Dataset, FileDataset, ImageFolder, StackDataset, Subset,
                        TensorDataset, TokenDataset, random_split)

WORKERS = (0, 1, 4)


class Numbers(Dataset):
    """Of Python alone: what it gives is its index."""

    def __init__(self, n, fails=(), slow=0.0):
        self.n, self.fails, self.slow = n, fails, slow

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.slow:
            time.sleep(random.random() * self.slow)
        if i in self.fails:
            raise KeyError(f"no {i}")
        return {"number": i, "name": str(i)}


def numbers_of(batches):
    return [i for b in batches for i in (b["number"] if isinstance(b, dict) else b[0]).tolist()]


class Loaders(unittest.TestCase):
    def native(self, n, **options):
        return DataLoader(TensorDataset(qn.arange(n)), **options)

    def test_order_is_the_same_whoever_gathers(self):
        for shuffle in (False, True):
            orders = [numbers_of(make(37, batch_size=5, shuffle=shuffle, seed=3, num_workers=w))
                      for make in (self.native, lambda n, **o: DataLoader(Numbers(n, slow=0.002), **o))
                      for w in WORKERS]
            self.assertEqual(sorted(orders[0]), list(range(37)))
            self.assertEqual(orders[0] == list(range(37)), not shuffle)
            self.assertTrue(all(o == orders[0] for o in orders))

    def test_a_million_samples(self):
        loader = self.native(10**6, batch_size=4096, shuffle=True, num_workers=4)
        first, second = numbers_of(loader), numbers_of(loader)
        self.assertEqual(len(loader), 245)
        self.assertNotEqual(first, second)
        self.assertTrue(sorted(first) == sorted(second) == list(range(10**6)))

    def test_every_batch_is_a_place_to_go_on_from(self):
        for make in (self.native, lambda n, **o: DataLoader(Numbers(n), **o)):
            for w in WORKERS:
                options = dict(batch_size=4, shuffle=True, seed=8, num_workers=w)
                loader = make(30, **options)
                whole = [numbers_of(loader), numbers_of(loader)]
                for stop in range(9):
                    loader = make(30, **options)
                    given = []
                    for _, batch in zip(range(stop), loader):
                        given.append(batch)
                    state = loader.state_dict()
                    again = make(30, **dict(options, seed=99))
                    again.load_state_dict(state)
                    rest = numbers_of(again)
                    if stop < 8:
                        self.assertEqual(numbers_of(given) + rest, whole[0])
                        self.assertEqual(numbers_of(again), whole[1])
                    else:  # the epoch was over
                        self.assertEqual(rest, whole[1])
                with self.assertRaisesRegex(ValueError, "9 batches, and here it has 8"):
                    loader.load_state_dict({"seed": 0, "epoch": 0, "batch": 0, "batches": 9})

    def test_a_broken_iteration_ends_and_the_next_is_another_epoch(self):
        before = threading.active_count()
        for make in (self.native, lambda n, **o: DataLoader(Numbers(n, slow=0.001), **o)):
            loader = make(1000, batch_size=2, shuffle=True, num_workers=4)
            for batch in loader:
                break
            second = numbers_of(loader)
            self.assertEqual(loader.state_dict()["epoch"], 1)
            self.assertEqual(sorted(second), list(range(1000)))
            old = iter(loader)
            next(old)
            new = iter(loader)
            next(new)
            with self.assertRaisesRegex(RuntimeError, "another iteration"):
                next(old)
            old = iter(loader)
            for _ in range(500):
                next(old)
            loader.set_epoch(0)
            with self.assertRaisesRegex(RuntimeError, "its place was changed"):
                next(old)
            del old, new, loader, batch
            gc.collect()
        self.assertEqual(threading.active_count(), before)

    def test_a_failing_sample_is_named(self):
        for w in WORKERS:
            loader = DataLoader(Numbers(20, fails=(13,)), batch_size=5, num_workers=w)
            got = []
            with self.assertRaises(KeyError) as caught:
                for batch in loader:
                    got.append(batch)
            self.assertEqual(len(got), 2)
            self.assertEqual(caught.exception.__notes__, ["DataLoader: sample 13"])

    def test_shards_and_last_batches(self):
        for make in (self.native, lambda n, **o: DataLoader(Numbers(n), **o)):
            parts = [numbers_of(make(23, batch_size=4, shuffle=True, rank=r, world=3)) for r in range(3)]
            self.assertEqual(sorted(sum(parts, [])), list(range(23)))
            dropped = [make(23, batch_size=4, drop_last=True, rank=r, world=3) for r in range(3)]
            self.assertEqual([len(d) for d in dropped], [1, 1, 1])
            self.assertTrue(all(len(numbers_of(d)) == 4 for d in dropped))
            self.assertEqual(numbers_of(make(0, batch_size=4)), [])

    def test_a_jit_takes_batches_without_new_plans_and_values_stay(self):
        x = qn.arange(64).astype("float32").reshape(32, 2)
        traced = []

        @qn.jit
        def f(a, b):
            traced.append(1)
            return (a * 2).sum(axis=1) + b

        loader = DataLoader(TensorDataset(x, qn.arange(32)), batch_size=8, shuffle=True, num_workers=2)
        kept = []
        for _ in range(5):
            for a, b in loader:
                y = f(a, b)
                kept.append((a, b))
                self.assertEqual(y.tolist(), [2 * (2 * i + 2 * i + 1) + i for i in b.tolist()])
        self.assertEqual(len(traced), 1)
        del loader
        for a, b in kept:
            self.assertEqual(a.tolist(), [[2 * i, 2 * i + 1] for i in b.tolist()])

    def test_a_batch_cannot_be_asked_for_in_a_jit(self):
        loader = DataLoader(TensorDataset(qn.arange(4)))
        with self.assertRaisesRegex(Exception, "batch of a loader"):
            qn.jit(lambda x: x + next(iter(loader))[0])(qn.ones(1))

    def test_collate(self):
        samples = [(qn.tensor([1.0, 2.0]), 3, "a", [1.5, True]), (qn.tensor([4.0, 5.0]), 6, "b", [2.5, False])]
        x, n, names, more = next(iter(DataLoader(samples, 2)))
        self.assertEqual((x.tolist(), n.tolist(), names), ([[1, 2], [4, 5]], [3, 6], ["a", "b"]))
        self.assertEqual([m.tolist() for m in more], [[1.5, 2.5], [True, False]])
        self.assertEqual(list(DataLoader([1, 2, 3], 2, collate_fn=sum)), [3, 3])
        with self.assertRaisesRegex(TypeError, "object is no tensor"):
            list(DataLoader([object()]))
        with self.assertRaisesRegex(ValueError, "batch_size 0"):
            DataLoader([1], 0)


class Datasets(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name, data):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def test_parts_and_sums(self):
        a, b = TensorDataset(qn.arange(10)), TensorDataset(qn.arange(5) + 100)
        both = a + b
        self.assertIsInstance(both, ConcatDataset)
        self.assertEqual((len(both), both[-1][0].item(), both[9][0].item()), (15, 104, 9))
        self.assertIsNotNone(both.native)
        part = Subset(both, [14, 0, -1])
        self.assertEqual([x[0].item() for x in part], [104, 0, 104])
        self.assertEqual(numbers_of(DataLoader(part, 2)), [104, 0, 104])
        parts = random_split(both, [0.5, 0.5], seed=1)
        self.assertEqual([len(p) for p in parts], [8, 7])
        self.assertEqual(sorted(numbers_of(DataLoader(parts[0], 4)) + numbers_of(DataLoader(parts[1], 4))),
                         sorted(numbers_of(DataLoader(both, 15))))
        self.assertEqual(random_split(both, [8, 7], seed=1)[0].indices, parts[0].indices)
        pairs = StackDataset(Numbers(5), b)
        self.assertEqual((len(pairs), pairs[2][0]["number"], pairs[2][1][0].item()), (5, 2, 102))
        for bad in (lambda: a[10], lambda: Subset(a, [10]), lambda: both[-16]):
            self.assertRaises(IndexError, bad)
        self.assertRaises(ValueError, random_split, a, [3, 4])
        self.assertEqual([len(p) for p in random_split(a, [1.0])], [10])
        self.assertEqual([len(p) for p in random_split(Subset(a, [3]), [1])], [1])
        mixed = a + TensorDataset(qn.zeros((2, 3)))
        self.assertEqual((len(mixed), mixed[9][0].item(), mixed[11][0].tolist()), (12, 9, [0, 0, 0]))
        self.assertEqual([b[0].shape for b in DataLoader(mixed)][8:], [(1,), (1,), (1, 3), (1, 3)])
        with self.assertRaisesRegex(ValueError, "tensor 1 has 5 rows, and 0 has 10"):
            TensorDataset(qn.arange(10), qn.arange(5))

    def test_csv_against_the_csv_module(self):
        rng = random.Random(4)
        texts = ["plain", 'with "quotes"', "a,b", "two\nlines", "", "ä", " spaces "]
        rows = [(rng.choice(texts), repr(rng.uniform(-1, 1) * 10 ** rng.randint(-30, 30)), rng.randint(-128, 127))
                for _ in range(300)]
        path = os.path.join(self.folder.name, "a.csv")
        with open(path, "w", newline="", encoding="utf-8") as f:
            writer = csv.writer(f)
            writer.writerow(["text, of sorts", "x", "n"])
            writer.writerows(rows)
        d = CSVDataset(path, {"class": ("text, of sorts", str), "x": ("x", "float64"), "n": ("n", "int8"),
                              "both": ["n", "x"]})
        self.assertEqual(len(d), 300)
        names = d.classes("class")
        self.assertEqual(names, sorted(set(texts), key=lambda t: t.encode()))
        for i, (text, x, n) in enumerate(rows):
            k, got_x, got_n, both = d[i]
            self.assertEqual((names[k.item()], got_x.item(), got_n.item()), (text, float(x), n))
            self.assertEqual(both.tolist(), [n, struct.unpack("f", struct.pack("f", float(x)))[0]])
        with self.assertRaisesRegex(ValueError, r"line 1, column 1|line 2, column 1 \(\"text, of sorts\"\)"):
            CSVDataset(path)
        with self.assertRaisesRegex(ValueError, 'no column "y"'):
            CSVDataset(path, {"y": "y"})

    def test_idx_and_arrays_of_numpy(self):
        images = bytes(range(24))
        d = FileDataset(self.path("a.idx", struct.pack(">HBBIII", 0, 8, 3, 4, 2, 3) + images))
        self.assertEqual((len(d), d.fields), (4, [("array", qn.uint8, (2, 3))]))
        self.assertEqual(d[1][0].tolist(), [[6, 7, 8], [9, 10, 11]])
        try:
            import numpy as np
        except ImportError:
            self.skipTest("no NumPy")
        x, y = np.arange(12, dtype=">f4").reshape(4, 3), np.asfortranarray(np.arange(8).reshape(4, 2))
        for name, write in (("a.npz", np.savez), ("b.npz", np.savez_compressed)):
            path = os.path.join(self.folder.name, name)
            write(path, x=x, y=y)
            d = FileDataset(path)
            loader = DataLoader(d, 4, shuffle=True, num_workers=1)
            bx, by = next(iter(loader))
            order = [int(v) // 2 for v in by.numpy()[:, 0]]
            self.assertEqual(sorted(order), [0, 1, 2, 3])
            self.assertTrue((bx.numpy() == x[order]).all() and (by.numpy() == y[order]).all())

    def test_tokens(self):
        d = TokenDataset(self.path("a.bin", struct.pack("<10H", *range(1000, 1010))), 4, stride=3, dtype="uint16")
        self.assertEqual([[x.tolist() for x in s] for s in d],
                         [[[1000, 1001, 1002, 1003], [1001, 1002, 1003, 1004]],
                          [[1003, 1004, 1005, 1006], [1004, 1005, 1006, 1007]]])

    def test_images_in_folders(self):
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("no Pillow")
        for name, color in (("cats/a.png", (1, 2, 3)), ("cats/b/c.PNG", (4, 5, 6)), ("dogs/a.png", (7, 8, 9))):
            path = os.path.join(self.folder.name, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Image.new("RGB", (3, 2), color).save(path)
        self.path("dogs/notes.txt", b"no image")
        d = ImageFolder(self.folder.name)
        self.assertEqual((len(d), d.classes), (3, ["cats", "dogs"]))
        self.assertEqual((d[1][0].shape, d[1][1]), ((3, 2, 3), 0))
        self.assertEqual(d[2][0].tolist(), [[[c] * 3] * 2 for c in (7, 8, 9)])
        x, y = next(iter(DataLoader(ImageFolder(self.folder.name, mode="L", size=(4, 4)), 3, num_workers=2)))
        self.assertEqual((x.shape, y.tolist()), ((3, 1, 4, 4), [0, 0, 1]))
        self.assertEqual(ImageFolder(self.folder.name, lambda i: i.size)[0], ((3, 2), 0))
        self.path("dogs/b.png", b"damaged")
        with self.assertRaises(OSError) as caught:
            list(DataLoader(ImageFolder(self.folder.name), 2))
        self.assertEqual(caught.exception.__notes__, ["DataLoader: sample 3"])

    def test_data_in_a_forked_child_is_refused(self):
        d = TensorDataset(qn.arange(4))
        self.assertEqual(d[1][0].item(), 1)
        child = os.fork()
        if child == 0:
            try:
                d[1]
            except ValueError:
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
