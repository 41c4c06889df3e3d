# Makes Parquet of the block table: CSV on standard input, as `cuheap export --format csv` writes it, behind one line of
# JSON with what holds for all rows; Parquet on standard output, behind the line "ready". cuheap runs this text with -c.
import os
import sys

# With -c the working directory comes first: whatever lies there is not to be imported.
sys.path = [folder for folder in sys.path if folder not in ("", ".")]
try:
    import json
    import pyarrow as arrow
    from pyarrow import csv, parquet
except ImportError as error:
    sys.exit(f"no pyarrow: {error}")

TYPES = {
    **dict.fromkeys(("id", "address", "bytes", "reserved_bytes", "stream"), arrow.uint64()),
    **dict.fromkeys(("device", "thread", "line", "stack"), arrow.uint32()),
    **dict.fromkeys(("allocated_ns", "freed_ns"), arrow.int64()),
    **dict.fromkeys(("framework_cache", "held_at_end"), arrow.bool_()),
}
# Of the process: the same in every row, so that files of many ranks can be read as one table.
COMMON = {"rank": arrow.uint32(), "host": arrow.string(), "pid": arrow.uint64(), "start": arrow.timestamp("ns", tz="UTC")}
GROUP_ROWS = 1 << 18


class Output:
    """Standard output, which cannot tell where it is."""

    closed = False

    def __init__(self, file):
        self.file, self.position = file, 0

    def write(self, data):
        self.file.write(data)
        self.position += len(data)
        return len(data)

    def tell(self):
        return self.position

    def flush(self):
        self.file.flush()

    def writable(self):
        return True

    def readable(self):
        return False

    def seekable(self):
        return False

    def close(self):
        self.flush()


def main():
    output, source = sys.stdout.buffer, sys.stdin.buffer
    output.write(b"ready\n")
    output.flush()
    common = json.loads(source.readline())
    names = source.readline().decode().rstrip("\n").split(",")
    schema = arrow.schema([*((name, TYPES.get(name, arrow.string())) for name in names), *COMMON.items()])
    with parquet.ParquetWriter(Output(output), schema, compression="zstd") as writer:
        if source.peek(1):  # else there is no row
            write_rows(source, names, schema, common, writer)
    output.flush()
    # A thread of pyarrow that ends while the interpreter does aborts it now and then ("terminate called without an
    # active exception"), when all is written.
    os._exit(0)


def write_rows(source, names, schema, common, writer):
    reader = csv.open_csv(
        source, csv.ReadOptions(column_names=names, use_threads=False, block_size=4 << 20), csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(column_types={name: schema.field(name).type for name in names}, null_values=[""], strings_can_be_null=True,
                           quoted_strings_can_be_null=False))
    waiting = []

    def write_group():
        table = arrow.Table.from_batches(waiting, reader.schema)
        for name, kind in COMMON.items():
            table = table.append_column(name, arrow.repeat(arrow.scalar(common[name], kind), table.num_rows))
        writer.write_table(table, row_group_size=2 * GROUP_ROWS)
        waiting.clear()

    for batch in reader:
        waiting.append(batch)
        if sum(map(len, waiting)) >= GROUP_ROWS:
            write_group()
    if waiting:
        write_group()


main()
