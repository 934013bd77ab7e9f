"""`pack`: kernels of the database in one file; taken in from one; signed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compiler.errors import UnknownCard
from compiler.faults import UsageFault, reporting
from fusetune.errors import InvalidRequest, PackageMissing, UnusableKey
from fusetune.signer import Signer
from fusetune.signing import Trust, process_trust
from fusetune.whole import written_whole
from fusetune.wire.pack import PackFile, UnusablePack, pack_bytes, with_signatures
from fusetune.wire.problems import InvalidDocument
from fusetune.wire.wheel import check_name, named
from service.cli.database import database_of, reports_faults
from service.cli.given import actor
from service.cli.options import DatabaseUrl, DataDir
from service.db import kernels, migrate
from service.operations import packs
from service.operations.cards import stored_ids
from service.operations.errors import OperationRefused, UntrustedPack

pack = typer.Typer(help="Kernels in one file: export them, import them, sign them.", no_args_is_help=True)

PackName = Annotated[Path, typer.Argument(help="A pack.", metavar="FILE")]


@pack.command()
@reporting(OperationRefused, InvalidDocument, UnknownCard, UnusableKey, kernels.DamagedArtifact, OSError)
@reports_faults
def export(
    out: Annotated[Path, typer.Option(help="Where to write it.", metavar="FILE")],
    fingerprint: Annotated[
        list[str] | None, typer.Option(help="Of this fusion; repeat it. Default: of all.", metavar="FINGERPRINT")
    ] = None,
    card: Annotated[str | None, typer.Option(help="For this card. Default: for all.", metavar="NAME")] = None,
    history: Annotated[bool, typer.Option("--history", help="With all trials of the tunings that found them.")] = False,
    key: Annotated[Path | None, typer.Option(help="Private key to sign the pack with.", metavar="FILE")] = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Write the kernels that are served into a pack, and print its hash."""
    check_name(out.name)
    signer = None if key is None else Signer.load(key)
    with database_of(database_url, data_dir) as database:
        migrate.ensure_there(database)
        with database.read() as session:
            ids = None if card is None else stored_ids(session, card)
            made = packs.written(session, fingerprint or (), ids, history=history)
    if signer is not None:
        made.sign([signer.signature(pack_bytes(made.sha256))])
    _write(out, named(out.name, made.content()))
    typer.echo(made.sha256)


@pack.command("import")
@reporting(UnusablePack, UntrustedPack, InvalidRequest, PackageMissing, OSError)
@reports_faults
def import_pack(
    file: PackName,
    sha256: Annotated[str | None, typer.Option(help="The hash that the pack must have.", metavar="HASH")] = None,
    trust: Annotated[
        str | None,
        typer.Option(help="Public keys of which one must have signed it. Default: FUSETUNE_TRUST.", metavar="KEYS"),
    ] = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Take the kernels of a pack in, all or, if it contradicts itself, none. Its evidence is believed."""
    found, keys = _opened(file), process_trust() if trust is None else Trust.of(trust)
    packs.ensure_trusted(found, keys)
    with database_of(database_url, data_dir, must_exist=False) as database:
        migrate.ensure_there(database)
        if sha256 is not None and found.sha256 != sha256:
            raise UsageFault(f"{file}: its sha256 is {found.sha256}, expected {sha256}. Nothing was taken.")
        with database.write() as session:
            taken = packs.take_in(session, found, actor(), keys)
    for line in taken.left:
        typer.echo(f"left out {line}", err=True)
    learned = f" {taken.trials} trials of their searches are new." if taken.trials else ""
    typer.echo(f"{taken.kernels} kernels were taken in, {taken.known} were known, {len(taken.left)} left out.{learned}")


@pack.command()
@reporting(UsageFault, InvalidDocument, UnusablePack, UnusableKey, OSError)
def sign(file: PackName, key: Annotated[Path, typer.Option(help="Private key to sign with.", metavar="FILE")]) -> None:
    """Sign a pack, beside who has signed it before. Its hash stays."""
    signer = Signer.load(key)
    found = _opened(file)
    found.check()  # nobody signs what is damaged
    others = [one for one in found.signatures if one.key != signer.key]
    signed = with_signatures(file.read_bytes(), [*others, signer.signature(pack_bytes(found.sha256))])
    content = named(file.name, signed)
    found.close()
    _write(file, content)
    typer.echo(f"{found.sha256} is signed by {signer.public}.")


def _opened(file: Path) -> PackFile:
    try:
        return PackFile(file)
    except UnusablePack as error:
        raise UsageFault(f"{file}: {error}. Have it written again: python -m service pack export.") from None


def _write(target: Path, content: bytes) -> None:
    """Raises OSError."""
    with written_whole(target) as part:
        part.write_bytes(content)
