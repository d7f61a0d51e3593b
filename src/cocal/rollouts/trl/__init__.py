"""TRL's rollouts: tables read after a training (`dumps`), and recorded during anybody's training (`recording`)."""
